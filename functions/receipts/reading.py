"""Parses receipts in the formats that AWS documents.

    SNS delivery status    docs.aws.amazon.com/sns/latest/dg: sns-msg-status.html (pushes), sms_stats_cloudwatch.html
    EventDeliveryFailure   the same: application-event-notifications.html
    SES event publishing   docs.aws.amazon.com/ses/latest/dg: event-publishing-retrieving-sns-contents.html
    SMS                    docs.aws.amazon.com/sms-voice/latest/userguide: configuration-sets-event-types.html,
                           configuration-sets-event-format.html, monitor-event-bridge.html

`delivered` means that a push service, a carrier or a mail server accepted the message, not that a person read it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parseaddr
from typing import Any

from functions.receipts.answers import answer_in, is_answer
from masscomm.domain.ids import address_id
from masscomm.domain.limits import MAX_ADDRESS_BYTES
from masscomm.domain.sms_answers import SmsAnswer
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.units import unit_problem
from masscomm.errors import DeadLetter
from masscomm.json_reader import InvalidJson, read_json

# The plain text that SES sends to an SNS topic when the topic is configured as a destination.
_SES_IS_THERE = "Successfully validated SNS topic for Amazon SES"
OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """A provider's receipt for one message.

    Attributes:
        status: The status of the message; None if the receipt contains nothing about its arrival.
        at_ms: The time of the receipt in ms since the epoch; None if it has none.
        code: The cause, from a closed list, or empty. The provider's free text may quote addresses and is not stored.
        dead_endpoint: The ARN of a disabled device endpoint.
        dead_addresses: The addresses or numbers to suppress; each is one that the message was sent to.
        paused_tenant: The tenant of SES that it has paused; the event is none of a message then.
    """

    message_id: str
    status: Status | None = None
    reason: Reason | None = None
    at_ms: int | None = None
    code: str = ""
    dead_endpoint: str | None = None
    dead_addresses: tuple[str, ...] = ()
    paused_tenant: str = ""


def read(body: str) -> Receipt | SmsAnswer | None:
    """Return the receipt, or the answer to an SMS; None for a provider's test message. Raises DeadLetter."""
    if body.startswith(_SES_IS_THERE):
        return None
    try:
        document = read_json(body)
    except InvalidJson as error:
        raise DeadLetter("undecodable", f"no receipt: {error}") from error
    try:
        if isinstance(document, dict) and is_answer(document):
            return answer_in(document)
        receipt = _reader_of(document)(document)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise DeadLetter("undecodable", f"a receipt that lacks something: {error!r:.500}") from error
    if problem := unit_problem("receipt", receipt.at_ms):  # guard: receipts.unit_of_time
        raise DeadLetter("undecodable", problem)
    return receipt


def _reader_of(document: Any) -> Callable[[Mapping[str, Any]], Receipt]:
    if isinstance(document, dict):
        if document.get("detail-type") in TENANT_EVENTS:
            return _of_tenant
        if "mail" in document and ("eventType" in document or "notificationType" in document):
            return _of_ses
        if str(document.get("eventType", "")).startswith("TEXT_"):
            return _of_text_message
        if document.get("Service") == "SNS" and "EventType" in document:
            return _of_application_event
        if "notification" in document and "delivery" in document:
            return _of_delivery_status
    raise DeadLetter("undecodable", "a receipt of no shape that is known")


# --- SNS, delivery status in the logs ---------------------------------------------------------------------------------

# Texts that push services return for a token that was removed; they may be anywhere in the response. FCM: UNREGISTERED
# (v1), NotRegistered, InvalidRegistration; APNs: Unregistered, BadDeviceToken, InvalidToken; SNS itself:
# EndpointDisabled.
_DEAD_TOKEN = (
    "unregistered",
    "notregistered",
    "invalidregistration",
    "baddevicetoken",
    "invalidtoken",
    "endpointdisabled",
    "endpoint is disabled",
)
# Texts for credentials that do not belong to the token's app: those of another project or app in a platform application
# cause them for every device, until they are corrected. FCM: MismatchSenderId, SENDER_ID_MISMATCH (v1); APNs:
# DeviceTokenNotForTopic.
_OTHER_APP = ("mismatchsenderid", "sender_id_mismatch", "devicetokennotfortopic")
# Statuses of push services that concern our credentials or our rate, not the message.
_NOT_OF_THE_MESSAGE = ("401", "403", "429")
# Texts that carriers return for a number that no message can reach.
_DEAD_NUMBER = ("blocked", "opted out", "invalid phone number", "invalid number", "unknown number")


def _of_delivery_status(document: Mapping[str, Any]) -> Receipt:
    notification, delivery = document["notification"], document["delivery"]
    published = datetime.fromisoformat(notification["timestamp"]).replace(tzinfo=UTC)
    response = str(delivery.get("providerResponse", ""))
    arrived = {"SUCCESS": True, "FAILURE": False}[document["status"]]
    at = published + timedelta(milliseconds=float(delivery.get("dwellTimeMs", 0)))
    receipt = Receipt(
        message_id=_text(notification["messageId"]),
        status=Status.DELIVERED if arrived else Status.BOUNCED,
        at_ms=_milliseconds(at),
    )
    if arrived:
        return receipt
    destination = str(delivery.get("destination", ""))
    if ":endpoint/" not in destination:
        dead = _word_in(response, _DEAD_NUMBER)
        reason = Reason.BOUNCED_PERMANENT if dead else Reason.BOUNCED_TRANSIENT
        return replace(receipt, reason=reason, code=dead or OTHER)
    if dead := _word_in(response, _DEAD_TOKEN):
        return replace(receipt, reason=Reason.DEVICE_INACTIVE, code=dead, dead_endpoint=destination)
    if other_app := _word_in(response, _OTHER_APP):  # guard: receipts.credentials_of_another_app
        return replace(receipt, reason=Reason.BOUNCED_TRANSIENT, code=other_app)
    status = str(delivery.get("statusCode", ""))
    rejected = status.startswith("4") and status not in _NOT_OF_THE_MESSAGE
    reason = Reason.PROVIDER_REJECTED if rejected else Reason.BOUNCED_TRANSIENT
    return replace(receipt, reason=reason, code=status if re.fullmatch("[1-5][0-9]{2}", status) else OTHER)


def _word_in(response: str, words: Iterable[str]) -> str:
    """Return the first of the words that occurs in a provider's response, or an empty text."""
    lower = response.lower()
    return next((word for word in words if word in lower), "")


# --- SNS, events of a platform application ----------------------------------------------------------------------------

# FailureType → reason. For a type that is not listed, retries were exhausted: DependencyUnavailable, Throttled,
# UnexpectedFailure, InvalidCredentials and the like.
_FAILURES = {
    "InvalidPlatformToken": Reason.DEVICE_INACTIVE,
    "EndpointDisabled": Reason.DEVICE_INACTIVE,
    "InvalidNotification": Reason.PROVIDER_REJECTED,
}
_PASSING_FAILURES = {"DependencyUnavailable", "Throttling", "UnexpectedFailure", "InvalidCredentials"}
_OF_ENDPOINTS = {"EndpointCreated", "EndpointDeleted", "EndpointUpdated"}


def _of_application_event(document: Mapping[str, Any]) -> Receipt:
    kind = document["EventType"]
    if kind in _OF_ENDPOINTS:
        return Receipt(message_id="")
    if kind != "DeliveryFailure":
        raise DeadLetter("undecodable", f"an event of a platform application that is not known: {kind!r:.100}")
    reason = _FAILURES.get(document["FailureType"], Reason.BOUNCED_TRANSIENT)
    return Receipt(
        message_id=_text(document["MessageId"]),
        status=Status.BOUNCED,
        reason=reason,
        at_ms=_moment(document.get("Time")),
        code=_listed(document["FailureType"], {*_FAILURES, *_PASSING_FAILURES}),
        dead_endpoint=_text(document["EndpointArn"]) if reason is Reason.DEVICE_INACTIVE else None,
    )


# --- SES, event publishing --------------------------------------------------------------------------------------------

# Events that report no arrival: SES accepted the message, retries it, or the recipient opened it.
_NO_ARRIVAL = {"Send", "Open", "Click", "DeliveryDelay", "Subscription"}
# The bounce types of docs.aws.amazon.com/ses/latest/dg/notification-contents.html, "Bounce types" and "Complaint
# object".
_BOUNCES = {"Undetermined", "Permanent", "Transient"}
_BOUNCE_SUBTYPES = {
    *("Undetermined", "General", "NoEmail", "Suppressed", "OnAccountSuppressionList", "UnsubscribedRecipient"),
    *("MailboxFull", "MessageTooLarge", "CustomTimeoutExceeded", "ContentRejected", "AttachmentRejected"),
}
# The fields of a bounce and of its recipients that are copied from a delivery status notification (the same page,
# "Bounce object" and "Bounced recipients").
_OF_NOTIFICATIONS = ("reportingMTA", "action", "status", "diagnosticCode")
_COMPLAINTS = {"abuse", "auth-failure", "fraud", "not-spam", "virus"}
# Reports that are not complaints of the recipient: the message is not spam (RFC 6430), or a mail server could not
# authenticate it (RFC 6591).
_NO_COMPLAINTS = {"auth-failure", "not-spam"}
# The complaintSubType of a message that SES accepted and did not send, because of an earlier complaint.
NOT_SENT = "OnAccountSuppressionList"
# The beginning of the code of a complaint.
COMPLAINT = "complaint/"


def _of_ses(document: Mapping[str, Any]) -> Receipt:
    kind = document.get("eventType") or document["notificationType"]
    mail = document["mail"]
    message_id, sent_at = _text(mail["messageId"]), mail.get("timestamp")
    if kind in _NO_ARRIVAL:
        return Receipt(message_id=message_id)
    if kind == "Delivery":
        notice = document["delivery"]
        at = _moment(notice.get("timestamp", sent_at))
        return Receipt(message_id=message_id, status=Status.DELIVERED, at_ms=at)
    sent_to = {address_id(_address(each)) for each in mail.get("destination", ())}
    if kind == "Bounce":
        return _bounce(document["bounce"], message_id, sent_at, sent_to)
    if kind == "Complaint":
        notice = document["complaint"]
        feedback = _listed(notice.get("complaintFeedbackType"), _COMPLAINTS)
        if feedback in _NO_COMPLAINTS:  # guard: receipts.no_complaint
            return Receipt(message_id=message_id)
        was_sent = notice.get("complaintSubType") != NOT_SENT
        return Receipt(
            message_id=message_id,
            # A message that was sent arrived, and its recipient reported it as spam.
            status=Status.DELIVERED if was_sent else Status.BOUNCED,
            reason=None if was_sent else Reason.COMPLAINED,
            at_ms=_moment(notice.get("timestamp", sent_at)),
            code=f"{COMPLAINT}{feedback}",
            dead_addresses=_addresses(notice["complainedRecipients"], sent_to),
        )
    if kind in ("Reject", "Rendering Failure"):
        at, reason = _moment(sent_at), Reason.PROVIDER_REJECTED
        return Receipt(message_id=message_id, status=Status.BOUNCED, reason=reason, at_ms=at, code=kind)
    raise DeadLetter("undecodable", f"an event of SES that is not known: {kind!r:.100}")


# The events about tenants of SES; they may arrive in another order than they occurred, or not at all.
_PAUSED = "Sending Status Disabled"
TENANT_EVENTS = (_PAUSED, "Sending Status Enabled")
_TENANT = re.compile(r":tenant/([^/]+)(?:/|$)")


def _of_tenant(document: Mapping[str, Any]) -> Receipt:
    """Return the tenant that SES has paused. An operator resumes its e-mails, whatever SES does meanwhile."""
    found = [match[1] for each in document["resources"] if (match := _TENANT.search(_text(each)))]
    is_paused = document["detail-type"] == _PAUSED
    return Receipt(message_id="", paused_tenant=found[0] if found and is_paused else "")


def _bounce(notice: Mapping[str, Any], message_id: str, sent_at: Any, sent_to: Set[str]) -> Receipt:
    """Return the receipt for a bounce. After a Transient or Undetermined bounce, another message may arrive."""
    recipients = notice["bouncedRecipients"]
    if _is_automatic_reply(notice):  # guard: receipts.automatic_reply
        return Receipt(message_id=message_id)
    permanent = notice["bounceType"] == "Permanent"
    return Receipt(
        message_id=message_id,
        status=Status.BOUNCED,
        reason=Reason.BOUNCED_PERMANENT if permanent else Reason.BOUNCED_TRANSIENT,
        at_ms=_moment(notice.get("timestamp", sent_at)),
        code=f"{_listed(notice['bounceType'], _BOUNCES)}/{_listed(notice.get('bounceSubType'), _BOUNCE_SUBTYPES)}",
        dead_addresses=_addresses(recipients, sent_to) if permanent else (),
    )


def _is_automatic_reply(notice: Mapping[str, Any]) -> bool:
    """Return whether a bounce may be the reply of a recipient who is out of office, to a message that has arrived.

    SES reports such replies as Transient/General, as it reports many bounces. A bounce that a mail server writes has a
    delivery status notification (RFC 3464), from which SES copies the fields of _OF_NOTIFICATIONS; a reply has none.
    """
    if (notice["bounceType"], notice.get("bounceSubType")) != ("Transient", "General"):
        return False
    return not any(name in part for part in (notice, *notice["bouncedRecipients"]) for name in _OF_NOTIFICATIONS)


def _addresses(recipients: Any, sent_to: Set[str]) -> tuple[str, ...]:
    """Return the reported recipients that the message was sent to. A mail server can name any address in the bounce
    that it writes.
    """
    named = (_address(entry.get("emailAddress")) for entry in recipients)
    return tuple(address for address in named if address and address_id(address) in sent_to)


def _address(value: Any) -> str:
    """Return the address in a text, which may also contain a name; "" if there is none, as in a bounce of the subtype
    NoEmail. A mail server can write any text, and Python's parser recurses.
    """
    text = _text(value) if value else ""
    return parseaddr(text)[1] if len(text.encode()) <= MAX_ADDRESS_BYTES else ""  # guard: receipts.long_address


# --- AWS End User Messaging SMS ---------------------------------------------------------------------------------------

# Events before the last one, and TEXT_UNKNOWN: no carrier has reported anything for 72 hours.
_UNDECIDED = {"TEXT_QUEUED", "TEXT_PENDING", "TEXT_SENT", "TEXT_UNKNOWN"}
_TEXT_ARRIVED = {"TEXT_DELIVERED", "TEXT_SUCCESSFUL"}
_TEXT_REASONS = {
    "TEXT_INVALID": Reason.BOUNCED_PERMANENT,  # The number is not valid.
    "TEXT_INVALID_MESSAGE": Reason.PROVIDER_REJECTED,
    "TEXT_SPAM": Reason.PROVIDER_REJECTED,
    "TEXT_PROTECT_BLOCKED": Reason.PROVIDER_REJECTED,
    # The device or the carrier refuses messages, or was not reached: another message may arrive.
    "TEXT_BLOCKED": Reason.BOUNCED_TRANSIENT,
    "TEXT_CARRIER_BLOCKED": Reason.BOUNCED_TRANSIENT,
    "TEXT_UNREACHABLE": Reason.BOUNCED_TRANSIENT,
    "TEXT_CARRIER_UNREACHABLE": Reason.BOUNCED_TRANSIENT,
    "TEXT_TTL_EXPIRED": Reason.BOUNCED_TRANSIENT,
}


def _of_text_message(document: Mapping[str, Any]) -> Receipt:
    kind, message_id = document["eventType"], _text(document["messageId"])
    if kind in _UNDECIDED:
        return Receipt(message_id=message_id)
    at_ms = document["eventTimestamp"]
    if type(at_ms) is not int:
        raise TypeError("eventTimestamp")
    if kind in _TEXT_ARRIVED:
        return Receipt(message_id=message_id, status=Status.DELIVERED, at_ms=at_ms)
    if kind not in _TEXT_REASONS:
        raise DeadLetter("undecodable", f"an event of SMS that is not known: {kind!r:.100}")
    number, reason = document.get("destinationPhoneNumber"), _TEXT_REASONS[kind]
    # Events on EventBridge may lack the number; the user may have another one by now.
    is_dead = reason is Reason.BOUNCED_PERMANENT and number is not None  # guard: receipts.dead_number
    return Receipt(
        message_id=message_id,
        status=Status.BOUNCED,
        reason=reason,
        at_ms=at_ms,
        code=kind,
        dead_addresses=(_text(number),) if is_dead else (),
    )


def _listed(word: object, vocabulary: Collection[str]) -> str:
    return word if isinstance(word, str) and word in vocabulary else OTHER


def _moment(value: Any) -> int | None:
    return None if value is None else _milliseconds(datetime.fromisoformat(value))


def _milliseconds(at: datetime) -> int:
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"no text: {value!r:.100}")
    return value
