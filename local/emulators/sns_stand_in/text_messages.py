"""Emulates AWS End User Messaging SMS: SendTextMessage (JSON 1.0), with its checks and errors.

A request is checked against the service's model in botocore. Source: AWS End User Messaging SMS API reference, version
2, "SendTextMessage".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from local.emulators.sns_stand_in.endpoints import Refused
from local.emulators.sns_stand_in.script import Refusal
from local.emulators.sns_stand_in.shapes import Invalid, check_shape

TARGET = "PinpointSMSVoiceV2."
# An error of the rules (script.py) → the name of the exception here.
_NAMES = {"Throttling": "ThrottlingException", "InternalError": "InternalServerException"}
# The reasons of a conflict that rules can name as their code.
CONFLICTS = ("DESTINATION_PHONE_NUMBER_OPTED_OUT", "DESTINATION_COUNTRY_BLOCKED_BY_PROTECT_CONFIGURATION")


@dataclass
class TextMessages:
    """The origination identities, and the accepted messages."""

    any: bool = False  # Whether every identity exists.
    identities: set[str] = field(default_factory=set)
    # The requests that were accepted, with their message ids.
    accepted: list[dict[str, Any]] = field(default_factory=list)
    # The events with which AWS invokes the functions that follow SMS, in their order.
    events: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, number: str, to: str, text: str, message_id: str | None = None) -> None:
        """Let a recipient answer. The event is that of a subscription to the SNS topic of two-way SMS.

        Source: docs.aws.amazon.com/sms-voice/latest/userguide/two-way-sms-payload.html
        """
        message = {
            "originationNumber": number,
            "destinationNumber": to,
            "messageKeyword": "KEYWORD",
            "messageBody": text,
            "inboundMessageId": str(uuid4()),
            **({} if message_id is None else {"previousPublishedMessageId": message_id}),
        }
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.events.append({"Records": [{"EventSource": "aws:sns", "Sns": _notification(json.dumps(message), at)}]})

    def report(self, message_id: str, kind: str) -> None:
        """Report the arrival of an accepted SMS, such as TEXT_DELIVERED. Raises ValueError if there is no such SMS.

        Source: docs.aws.amazon.com/sms-voice/latest/userguide/monitor-event-bridge.html
        """
        request = next((each for each in self.accepted if each["MessageId"] == message_id), None)
        if request is None:
            raise ValueError(f"there is no message {message_id}")
        detail = {
            "eventType": kind,
            "eventVersion": "1.0",
            "eventTimestamp": round(datetime.now(UTC).timestamp() * 1000),
            "isFinal": True,
            "destinationPhoneNumber": request["DestinationPhoneNumber"],
            "messageId": message_id,
        }
        kind_of_event = "Text Message Delivery Status Updated"
        self.events.append({"source": "aws.sms-voice", "detail-type": kind_of_event, "detail": detail})

    def check(self, operation: str, body: bytes) -> Mapping[str, Any]:
        """Return a request that is valid. Raises Refused, or Invalid."""
        if operation != "SendTextMessage":
            raise Refused(Refusal(400, "UnknownOperationException", ""))
        try:
            request = json.loads(body)
        except ValueError as error:
            raise Refused(Refusal(400, "SerializationException", "")) from error
        check_shape("pinpoint-sms-voice-v2", "SendTextMessageRequest", request)
        if not self.any and request["OriginationIdentity"] not in self.identities:
            raise Refused(Refusal(400, "ResourceNotFoundException", "The requested resource does not exist"))
        return dict(request)


def _notification(message: str, at: str) -> dict[str, Any]:
    return {"Type": "Notification", "MessageId": str(uuid4()), "Message": message, "Timestamp": at}


def error_of(refusal: Refusal | Invalid) -> tuple[int, bytes]:
    """Return the HTTP status and the body of an error."""
    if isinstance(refusal, Invalid):
        found = [{"Name": refusal.name, "Message": refusal.problem}]
        document = {"Message": str(refusal), "Reason": "FIELD_VALIDATION_FAILED", "Fields": found}
        return 400, _body("ValidationException", document)
    if refusal.code in CONFLICTS:
        return 400, _body("ConflictException", {"Message": refusal.message, "Reason": refusal.code})
    return refusal.status, _body(_NAMES.get(refusal.code, refusal.code), {"Message": refusal.message})


def _body(name: str, document: Mapping[str, Any]) -> bytes:
    return json.dumps({"__type": f"com.amazonaws.pinpointsmsvoicev2#{name}", **document}).encode()
