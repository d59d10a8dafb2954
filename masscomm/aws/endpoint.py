"""Returns the address of an AWS service: the default address of the region, unless an environment variable overrides
it.
"""

import os

from masscomm.errors import Stop

# The service in the name of the setting, where it is not that of the address.
_SETTINGS = {"ses": "SESV2", "sms-voice": "PINPOINT_SMS_VOICE_V2"}


def region() -> str:
    """Return the region from AWS_REGION, or else from AWS_DEFAULT_REGION.

    Raises:
        Stop: Neither variable is set.
    """
    name = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not name:
        raise Stop("the environment variable AWS_REGION is not set")
    return name


def endpoint(service: str, region: str) -> str:
    """Return a service's URL, which ends with a slash.

    AWS_ENDPOINT_URL_<SERVICE> and AWS_ENDPOINT_URL take precedence, as in AWS's own SDKs.

    Args:
        service: dynamodb, sns, ses or sms-voice.
        region: for example eu-central-1.
    """
    given = os.environ.get(f"AWS_ENDPOINT_URL_{_SETTINGS.get(service, service.upper())}") or os.environ.get(
        "AWS_ENDPOINT_URL"
    )
    host = "email" if service == "ses" else service
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{given.rstrip('/')}/" if given else f"https://{host}.{region}.{suffix}/"
