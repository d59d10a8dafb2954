"""Reads a secret of AWS Secrets Manager by one signed request, without boto3.

Source: AWS Secrets Manager API reference, "GetSecretValue", "Common Errors".
"""

import json
import os
from collections.abc import Callable

from masscomm import environment
from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.request import Limits, Requests
from masscomm.errors import Retry, Stop

_HEADERS = {"content-type": "application/x-amz-json-1.1", "x-amz-target": "secretsmanager.GetSecretValue"}
_LIMITS = Limits(connections=1, connect_s=1.0, read_s=2.0)


def secret_setting(name: str) -> Callable[[], str]:
    """Return a function that returns the value of an environment variable, or reads the secret that `<name>_SECRET_ARN`
    names. Raises Stop if both are missing.
    """
    if text := os.environ.get(name):
        return lambda: text
    arn = environment.required(f"{name}_SECRET_ARN")
    return lambda: read_secret(arn)


def read_secret(arn: str) -> str:
    """Return the text of a secret. Raises Retry (down, throttled) or Stop (no such secret, no permission)."""
    try:
        status, answer = Requests("secretsmanager", _LIMITS).post(json.dumps({"SecretId": arn}).encode(), _HEADERS)
    except (NotSent, AnswerLost) as error:
        raise Retry(f"Secrets Manager did not answer: {type(error).__name__}") from error
    try:
        document = json.loads(answer)
        if status < 300:
            return str(document["SecretString"])
        code = str(document.get("__type", "")).rpartition("#")[2]
    except (ValueError, KeyError, AttributeError) as error:
        raise Retry(f"Secrets Manager answered {status} with something else") from error
    if status >= 500 or "Throttling" in code:
        raise Retry(f"Secrets Manager answered {status} {code}")
    raise Stop(f"Secrets Manager refuses the secret: {code}")
