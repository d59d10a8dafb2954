"""Answers CloudFormation for a custom resource.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-responses.html
"""

import json
import urllib.request
from typing import Any


def answer(event: dict[str, Any], reason: str) -> None:
    """Send the answer to an event: the reason of a failure; empty: success."""
    body = {
        "Status": "FAILED" if reason else "SUCCESS",
        "Reason": reason,
        "PhysicalResourceId": event["LogicalResourceId"],
        **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
    }
    # CloudFormation signs the address for a request without a media type.
    request = urllib.request.Request(  # noqa: S310 - CloudFormation's own address
        event["ResponseURL"], json.dumps(body).encode(), {"Content-Type": ""}, method="PUT"
    )
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310
