"""Explains the status of a notification in a sentence."""

from collections.abc import Mapping

from masscomm.domain.statuses import Reason, Status

STATUS_WORDS: Mapping[str, str] = {
    Status.ACCEPTED: "The notification was requested, and is not decided yet.",
    Status.SCHEDULED: "The notification waits for the time of its send.",
    Status.HELD: "The notification waits for the end of the user's quiet hours.",
    Status.QUEUED: "The message is written and waits for delivery.",
    Status.SENDING: "The provider was busy, or a device has no endpoint yet; delivery is retried.",
    Status.SUPPRESSED: "The notification must not or cannot be sent to this user.",
    Status.CANCELLED: "The send was cancelled before the message was published.",
    Status.EXPIRED: "The time limit of the notification passed before the message could be published.",
    Status.FAILED: "The notification should have been sent, and was not.",
    Status.SENT: "The provider accepted the message for at least one device or address.",
    Status.DELIVERED: "The provider reports that the message arrived.",
    Status.BOUNCED: "The provider reports that the message was returned.",
}

REASON_WORDS: Mapping[str, str] = {
    Reason.OPTED_OUT: "The user has opted out of this category or channel.",
    Reason.NOT_OPTED_IN: "The category needs an opt-in, which the user has not given.",
    Reason.UNKNOWN_USER: "The user is not known in this club.",
    Reason.NO_DEVICE: "The user has no device for push messages.",
    Reason.NO_ADDRESS: "The user has no e-mail address.",
    Reason.DEVICE_INACTIVE: "No device of the user accepts messages any more.",
    Reason.ADDRESS_SUPPRESSED: "The address bounced permanently before, or its owner complained.",
    Reason.NO_TEMPLATE: "There is no template for this category, channel and locale.",
    Reason.TEMPLATE_ERROR: "A variable of the template is missing, or the template does not compile.",
    Reason.PROVIDER_REJECTED: "The provider rejects the message permanently.",
    Reason.DEAD_LETTER: "The record of the notification could not be processed.",
    Reason.UNKNOWN_CHANNEL: "The requested channel does not exist.",
    Reason.TOO_LARGE: "The message is larger than a record or the provider permits.",
    Reason.BOUNCED_PERMANENT: "No message can ever arrive at this address or device.",
    Reason.BOUNCED_TRANSIENT: "The provider tried to deliver the message, and stopped trying.",
    Reason.COMPLAINED: "The owner of the address marked a message as spam.",
    Reason.EXPIRED: "The time limit of the notification passed before the message could be published.",
    Reason.CANCELLED: "The send was cancelled before the message was published.",
}


def in_words(status: str, reason: str | None) -> str:
    """Return a sentence about a status and its reason. A value that a later version recorded is named."""
    if reason:
        return REASON_WORDS.get(reason, f"The reason is {reason}.")
    return STATUS_WORDS.get(status, f"The status is {status}.")
