import boto3
import pytest

from masscomm.aws.endpoint import endpoint


@pytest.mark.parametrize("service", ["dynamodb", "sns", "ses"])
@pytest.mark.parametrize("region", ["eu-central-1", "us-east-1", "us-gov-west-1", "cn-north-1"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"},
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566", "AWS_ENDPOINT_URL_SNS": "http://127.0.0.1:4567/"},
    ],
)
def test_endpoint_of_a_service_equals_the_sdks(
    service: str, region: str, given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SNS"):
        monkeypatch.delenv(name, raising=False)
    for name, url in given.items():
        monkeypatch.setenv(name, url)
    theirs = boto3.client(service, region_name=region, aws_access_key_id="a", aws_secret_access_key="b")  # type: ignore[call-overload]
    assert endpoint(service, region).rstrip("/") == theirs.meta.endpoint_url.rstrip("/")
