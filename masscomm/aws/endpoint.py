"""Where a service of AWS answers: the region's address, or the one that the environment gives instead."""

import os

from masscomm.errors import Stop


def region() -> str:
    """AWS_REGION, or AWS_DEFAULT_REGION. Errors: Stop where neither is set."""
    name = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not name:
        raise Stop("the environment variable AWS_REGION is not set")
    return name


def endpoint(service: str, region: str) -> str:
    """A URL that ends with a slash. service: dynamodb, sns or ses.

    AWS_ENDPOINT_URL_<SERVICE> and AWS_ENDPOINT_URL go first, as with AWS's own SDKs.
    """
    given = os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or os.environ.get("AWS_ENDPOINT_URL")
    host = "email" if service == "ses" else service
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{given.rstrip('/')}/" if given else f"https://{host}.{region}.{suffix}/"
