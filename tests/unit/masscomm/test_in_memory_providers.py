import pytest

from masscomm.channels.in_memory import InMemoryEmail, InMemoryPush, InMemorySms
from masscomm.channels.provider import EmailProvider, SmsProvider
from tests.support.contracts.provider import EmailContract, PushContract, PushTargets, SmsContract


class TestInMemoryPush(PushContract):
    @pytest.fixture
    def targets(self) -> PushTargets:
        provider = InMemoryPush()
        return PushTargets(provider, provider.put("arn-1"), provider.put("arn-2", enabled=False), "arn-3")


class TestInMemoryEmail(EmailContract):
    @pytest.fixture
    def provider(self) -> EmailProvider:
        return InMemoryEmail()


class TestInMemorySms(SmsContract):
    @pytest.fixture
    def provider(self) -> SmsProvider:
        provider = InMemorySms()
        provider.unknown = {"Other"}
        return provider
