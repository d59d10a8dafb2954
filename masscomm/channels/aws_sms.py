"""AWS End User Messaging SMS as the provider of SMS: one signed request (SendTextMessage) for each message.

Source: AWS documentation, "AWS End User Messaging SMS API reference, version 2", SendTextMessage.
"""

from typing import Any, Unpack

from masscomm import fast_json
from masscomm.aws.async_requests import AsyncRequests
from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.request import Limits, ServiceOptions
from masscomm.channels.provider import CONNECT_S, READ_S, Sms
from masscomm.domain.provider_error_codes import sms_refusal
from masscomm.domain.provider_errors import Transient
from masscomm.errors import MasscommError

_OK, _SERVER_FAULT = 200, 500
_HEADERS = {
    "content-type": "application/x-amz-json-1.0",
    "x-amz-target": "PinpointSMSVoiceV2.SendTextMessage",
}
# The seconds that the API takes as a time to live; by default it is the largest number.
_SHORTEST_TTL_S, _LONGEST_TTL_S = 5, 259_200


class AwsSms:
    """Sends SMS through AWS End User Messaging SMS. An instance belongs to one event loop.

    The service publishes the events of each SMS to EventBridge by itself, so that no configuration set is named.

    Args:
        options: The options of masscomm.aws.request.Service.

    Raises:
        Stop: No region is set.
    """

    def __init__(self, **options: Unpack[ServiceOptions]) -> None:
        limits = Limits(connect_s=CONNECT_S, read_s=READ_S)
        self._requests = AsyncRequests("sms-voice", limits, headers=_HEADERS, **options)

    async def send(self, sms: Sms) -> str:
        request: dict[str, Any] = {
            "DestinationPhoneNumber": sms.number,
            "OriginationIdentity": sms.identity,
            "MessageBody": sms.text,
            "MessageType": "TRANSACTIONAL" if sms.is_transactional else "PROMOTIONAL",
            "Context": {"notification_id": sms.notification_id},
        }
        if sms.ttl_s is not None:
            request["TimeToLive"] = min(max(sms.ttl_s, _SHORTEST_TTL_S), _LONGEST_TTL_S)
        try:
            status, answer = await self._requests.post(fast_json.encoded(request))
        except (NotSent, MasscommError) as error:  # There is no connection, or there are no credentials at the moment.
            raise Transient(f"{type(error).__name__}: {error}"[:500]) from error
        except AnswerLost as error:
            raise Transient(f"{type(error).__name__}: {error}"[:500], answer_lost=True) from error
        document = _document(answer)
        if status != _OK:
            # The message of an error may quote the text or the number.
            # guard: sms.texts_in_errors
            reason = str(document.get("Reason") or "")[:100]
            code = str(document.get("__type", "")).rpartition("#")[2] or str(status)
            fields = [str(each.get("Name", "")) for each in document.get("Fields") or () if isinstance(each, dict)]
            refused = sms_refusal(code[:100], reason, fields)
            if isinstance(refused, Transient):
                # Without the name of an error, a proxy has answered.
                refused.may_be_accepted = status >= _SERVER_FAULT or "__type" not in document
            raise refused
        message_id = document.get("MessageId")
        if not isinstance(message_id, str) or not message_id:
            raise Transient("SendTextMessage was answered without a message id", answer_lost=True)
        return message_id

    async def close(self) -> None:
        await self._requests.close()


def _document(answer: bytes) -> dict[str, Any]:
    """Return the JSON object of a response; {} for another body, such as that of a proxy."""
    try:
        document = fast_json.parsed(answer)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
