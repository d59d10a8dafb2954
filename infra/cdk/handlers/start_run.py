"""A Lambda function that starts one run on the archive, once a day for each of them.

The event has `name`, `entryPoint` and `arguments`; the rest of the StartJobRun request is in the Systems Manager
parameter that RUN_PARAMETER names. Lambda retries a failed invocation under the same request id; the client token is
derived from it, so that a retry starts no second run.
"""

import json
import logging
import os
import uuid
from typing import Any

import boto3

_log = logging.getLogger(__name__)


def handler(event: dict[str, Any], context: Any) -> dict[str, str]:
    """Start the run, and return its id."""
    stored = boto3.client("ssm").get_parameter(Name=os.environ["RUN_PARAMETER"])["Parameter"]["Value"]
    request = json.loads(stored)
    request["name"] = f"{request['name']}-{event['name']}"
    submit = request["jobDriver"]["sparkSubmit"]
    submit |= {"entryPoint": event["entryPoint"], "entryPointArguments": event["arguments"]}
    token = str(uuid.uuid5(uuid.NAMESPACE_URL, context.aws_request_id))
    started = boto3.client("emr-serverless").start_job_run(clientToken=token, **request)
    _log.warning("started %s (%s)", started["jobRunId"], request["name"])
    return {"run": started["jobRunId"]}
