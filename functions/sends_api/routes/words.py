"""Explains the status of a notification in a sentence, and as the data of its decision."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict

from masscomm.domain.channels import CHANNELS
from masscomm.domain.preferences import GLOBAL, TENANT
from masscomm.domain.statuses import Reason, Status
from masscomm.http.parameters import time_of_ms

_RULE = re.compile(r"(?:category:(?P<category>.+?))?(?:(?:^| )channel:(?P<channel>\S+))?")


class DecidedBy(TypedDict):
    """The rule and the user settings that determined a status, as far as they are known."""

    layer: str | None
    """The source of the decision, such as user, default or provider."""
    rule: str | None
    """The setting that determined it, or the provider's code."""
    category: str | None
    """The category that a rule of the user settings is about; null: every category."""
    channel: str | None
    """The channel that a rule of the user settings is about; null: every channel."""
    settings_version: int | None
    """The version of these user settings in the directory: a position in the monolith's log."""
    changed_at: str | None
    """The time of the newest change in these user settings."""


STATUS_WORDS: Mapping[str, str] = {
    Status.ACCEPTED: "The notification was requested, and is not decided yet.",
    Status.SCHEDULED: "The notification waits for the time of its send, for its minute at the pace of the send, or as a"
    " fallback for the notification on the channel before.",
    Status.HELD: "The notification waits for the end of the user's quiet hours.",
    Status.COLLECTED: "The notification waits in a digest of the user.",
    Status.QUEUED: "The message is written and waits for delivery.",
    Status.SENDING: "The provider was busy, or a device has no endpoint yet; delivery is retried.",
    Status.SUPPRESSED: "The notification must not or cannot be sent to this user.",
    Status.CANCELLED: "The send was cancelled, or a fallback went, before the message was published.",
    Status.EXPIRED: "The time limit of the notification passed before the message could be published.",
    Status.FAILED: "The notification should have been sent, and was not.",
    Status.DIGESTED: "The notification is part of a digest, whose message is a send of its own.",
    Status.SENT: "The provider accepted the message for at least one device or address.",
    Status.DELIVERED: "The provider reports that the message arrived.",
    Status.BOUNCED: "The provider reports that the message was returned.",
}

REASON_WORDS: Mapping[str, str] = {
    Reason.OPTED_OUT: "The user has opted out of this category or channel.",
    Reason.NOT_NEEDED: "The notification on the channel before was sent.",
    Reason.FREQUENCY_CAP: "The user got as many notifications as the category allows in a time.",
    Reason.NOT_OPTED_IN: "The category needs an opt-in, which the user has not given.",
    Reason.UNKNOWN_USER: "The user is not known in this club.",
    Reason.NOT_FOLLOWING: "The send is for the followers of an object, and the user does not follow it.",
    Reason.NO_DEVICE: "The user has no device for push messages.",
    Reason.NO_ADDRESS: "The user has no e-mail address or phone number.",
    Reason.DEVICE_INACTIVE: "No device of the user accepts messages any more.",
    Reason.ADDRESS_SUPPRESSED: "The address bounced permanently before, or its owner complained.",
    Reason.NO_TEMPLATE: "There is no template for this category, channel and locale.",
    Reason.TEMPLATE_ERROR: "A variable of the template is missing, or the template does not compile.",
    Reason.INVALID_ADDRESS: "The user's address is not valid.",
    Reason.SPEND_LIMIT: "The SMS of the day have cost what the tenant may spend.",
    Reason.COUNTRY_NOT_ALLOWED: "No SMS are sent to the country of the user's number.",
    Reason.PROVIDER_REJECTED: "The provider rejects the message permanently.",
    Reason.DEAD_LETTER: "The record of the notification could not be processed.",
    Reason.UNKNOWN_CHANNEL: "The requested channel does not exist.",
    Reason.TOO_LARGE: "The message is larger than a record or the provider permits.",
    Reason.BOUNCED_PERMANENT: "No message can ever arrive at this address or device.",
    Reason.BOUNCED_TRANSIENT: "The provider tried to deliver the message, and stopped trying.",
    Reason.COMPLAINED: "The owner of the address marked a message as spam.",
    Reason.EXPIRED: "The time limit of the notification passed before the message could be published.",
    Reason.REPLACED: "The notification waited too long, and its fallback goes.",
    Reason.CANCELLED: "The send was cancelled before the message was published.",
}
_FOLLOWS = "follows:"
# The layers whose rules are not the user's own.
_TENANT_WORDS: Mapping[str, str] = {
    TENANT: "The tenant's rules exclude",
    GLOBAL: "The rules for every tenant exclude",
}


def decided_by(decision: Mapping[str, Any] | None) -> DecidedBy | None:
    """Return the data of a stored decision; None if none is stored."""
    if decision is None:
        return None
    rule, changed_at = decision.get("rule"), decision.get("settings_changed_at")
    about = _RULE.fullmatch(rule or "")
    return {
        "layer": decision.get("layer"),
        "rule": rule,
        "category": about["category"] if about else None,
        "channel": about["channel"] if about else None,
        "settings_version": decision.get("settings_version"),
        "changed_at": None if changed_at is None else time_of_ms(changed_at),
    }


def in_words(status: str, reason: str | None, by: DecidedBy | None = None) -> str:
    """Return a sentence about a status, its reason and its decision. A value that a later version recorded is named."""
    if reason == Reason.OPTED_OUT and by and (by["category"] or by["channel"] or by["layer"] in _TENANT_WORDS):
        sentence = f"{_TENANT_WORDS.get(by['layer'] or '', 'The user has opted out of')} {_subject(by)}."
    elif reason == Reason.OPTED_OUT and by and (by["rule"] or "").startswith(_FOLLOWS):
        sentence = f"The user has opted out of {(by['rule'] or '').removeprefix(_FOLLOWS)}."
    elif reason:
        sentence = REASON_WORDS.get(reason, f"The reason is {reason}.")
    else:
        sentence = STATUS_WORDS.get(status, f"The status is {status}.")
    # The version of the settings is a position in the monolith's log, which means nothing to a person.
    if by is None or by["changed_at"] is None:
        return sentence
    at = datetime.fromisoformat(by["changed_at"]).astimezone(UTC)
    return f"{sentence.removesuffix('.')} (settings of {at.day} {at:%B %Y})."


def _subject(by: DecidedBy) -> str:
    known = CHANNELS.get(by["channel"] or "")
    channel = (known.noun if known else "") or by["channel"]
    if not by["category"] and not channel:
        return "this category or channel"
    if by["category"] is None:
        return f"every {channel}"
    return f"{by['category']} by {channel}" if channel else by["category"]
