from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from masscomm.channels.ses_email import SesEmail
from masscomm.channels.sns_push import SnsPush
from masscomm.domain.provider_errors import Transient
from tests.support.contracts.provider import PushContract, PushTargets, publish, send
from tests.support.servers.localstack_client import localstack_client


@pytest.fixture
def aws(localstack: StackConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.aws_url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.mark.usefixtures("aws")
class TestSnsPush(PushContract):
    @pytest.fixture
    def targets(self, localstack: StackConfig, aws: None) -> PushTargets:
        sns = localstack_client(localstack.aws_url, "sns")
        application = sns.create_platform_application(
            Name=f"test-{uuid4()}", Platform="GCM", Attributes={"PlatformCredential": "key"}
        )["PlatformApplicationArn"]

        def endpoint() -> str:
            made = sns.create_platform_endpoint(PlatformApplicationArn=application, Token=str(uuid4()))
            return str(made["EndpointArn"])

        disabled, absent = endpoint(), endpoint()
        sns.set_endpoint_attributes(EndpointArn=disabled, Attributes={"Enabled": "false"})
        sns.delete_endpoint(EndpointArn=absent)
        return PushTargets(SnsPush(), endpoint(), disabled, absent)


def test_unreachable_provider_is_transient(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(Transient):
        publish(SnsPush(), endpoint_arn="arn", message="{}", attributes={})
    with pytest.raises(Transient):
        send(SesEmail(), recipient="c@d.example", message=b"x")
