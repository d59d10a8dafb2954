"""The errors of SendTextMessage, without the texts and numbers that they quote."""

import asyncio
import json
from typing import Any

import pytest

from masscomm.aws.signature import Credentials
from masscomm.channels.aws_sms import AwsSms
from masscomm.channels.provider import Sms
from masscomm.domain.provider_errors import (
    ApplicationOff,
    CountryNotAllowed,
    InvalidAddress,
    OptedOut,
    ProviderError,
    Rejected,
    Transient,
)

SMS = Sms(number="+4915123456789", identity="Club", text="secret", is_transactional=True, notification_id="n")


def error_of(status: int, answer: Any) -> ProviderError:
    """Return the error for a response of the service."""
    provider = AwsSms(url="http://127.0.0.1:1", region="us-east-1", credentials=lambda: Credentials("test", "test"))

    async def post(_body: bytes) -> tuple[int, bytes]:
        return status, answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    provider._requests.post = post  # type: ignore[assignment, method-assign]
    with pytest.raises(ProviderError) as raised:
        asyncio.run(provider.send(SMS))
    return raised.value


@pytest.mark.kills(guard="sms.texts_in_errors")
@pytest.mark.parametrize(
    ("name", "reason", "field", "error"),
    [
        ("ThrottlingException", "", "", Transient),
        ("ServiceQuotaExceededException", "MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT", "", Transient),
        ("InternalServerException", "", "", Transient),
        ("AccessDeniedException", "ACCOUNT_DISABLED", "", Transient),
        ("UnheardOfException", "", "", Transient),
        ("ResourceNotFoundException", "", "", ApplicationOff),
        ("ConflictException", "NO_ORIGINATION_IDENTITIES_FOUND", "", ApplicationOff),
        ("ConflictException", "DESTINATION_PHONE_NUMBER_NOT_VERIFIED", "", Transient),
        ("ConflictException", "DESTINATION_PHONE_NUMBER_OPTED_OUT", "", OptedOut),
        ("ConflictException", "DESTINATION_COUNTRY_BLOCKED_BY_PROTECT_CONFIGURATION", "", CountryNotAllowed),
        ("ValidationException", "SENDER_ID_NOT_SUPPORTED", "", ApplicationOff),
        ("ValidationException", "FIELD_VALIDATION_FAILED", "DestinationPhoneNumber", InvalidAddress),
        ("ValidationException", "FIELD_VALIDATION_FAILED", "MessageBody", Rejected),
    ],
)
def test_error_has_its_class_and_no_personal_data(
    name: str, reason: str, field: str, error: type[ProviderError]
) -> None:
    found = error_of(
        400,
        {
            "__type": f"com.amazonaws.pinpointsmsvoicev2#{name}",
            "Message": "Value 'secret' for +4915123456789 failed",
            "Reason": reason,
            "Fields": [{"Name": field, "Message": "Value 'secret' failed"}] if field else None,
        },
    )
    assert type(found) is error
    assert getattr(found, "throttled", False) is (name == "ThrottlingException")
    assert "secret" not in str(found)
    assert "4915123456789" not in str(found)


def test_response_of_a_proxy_is_transient() -> None:
    assert str(error_of(502, b"<html>")) == "502: "


@pytest.mark.parametrize(
    ("status", "answer", "may_be_accepted"),
    [
        (400, {"__type": "x#ServiceQuotaExceededException"}, False),
        (500, {"__type": "x#InternalServerException"}, True),
        (403, b"<html>", True),
    ],
)
def test_error_names_whether_the_sms_may_be_sent(status: int, answer: Any, may_be_accepted: bool) -> None:
    found = error_of(status, answer)
    assert isinstance(found, Transient)
    assert found.may_be_accepted is may_be_accepted


def test_response_without_an_id_is_lost() -> None:
    found = error_of(200, {})
    assert isinstance(found, Transient)
    assert found.answer_lost
