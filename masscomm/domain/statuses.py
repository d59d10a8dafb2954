"""All statuses and reasons of notifications, and the rank by which two statuses of a notification are merged."""

from enum import StrEnum


class Status(StrEnum):
    """The status of one notification (one user on one channel)."""

    ACCEPTED = "accepted"  # The notification was requested, and is not decided yet.
    SCHEDULED = "scheduled"  # The notification waits for the send_at or send_at_local of its send.
    HELD = "held"  # The notification waits for the end of the user's quiet hours.
    COLLECTED = "collected"  # The notification waits in a digest.
    QUEUED = "queued"  # The message is written and waits for delivery.
    # Delivery has not finished: the provider was busy, or an endpoint does not exist yet.
    SENDING = "sending"
    # The notification must not or cannot be sent to this user; the reason says why.
    SUPPRESSED = "suppressed"
    CANCELLED = "cancelled"  # The send was cancelled before the message was published.
    EXPIRED = "expired"  # expires_at passed before the message could be published.
    FAILED = "failed"  # The notification should have been sent and was not.
    # The notification is part of a digest, whose message is a send of its own: whatever becomes of that one.
    DIGESTED = "digested"
    SENT = "sent"  # The provider accepted the message for at least one device.
    DELIVERED = "delivered"  # The provider reports that the message arrived.
    BOUNCED = "bounced"  # The provider reports that the message was returned.


class Reason(StrEnum):
    """Why a notification has its status."""

    # --- suppressed ---

    OPTED_OUT = "opted_out"  # The user has opted out of this category or channel.
    # The category needs an opt-in, which the user has not given.
    NOT_OPTED_IN = "not_opted_in"
    # The user is not in the directory, and the directory has passed the send's timestamp; or the user belongs to
    # another club. A tenant must not be able to distinguish the two.
    UNKNOWN_USER = "unknown_user"
    # The send is for the followers of an object, and the user does not follow it.
    NOT_FOLLOWING = "not_following"
    NO_DEVICE = "no_device"  # The user has no device for push messages.
    NO_ADDRESS = "no_address"  # The user has no e-mail address or phone number.
    # Every device's endpoint is disabled or gone. With the status bounced, a receipt reports it.
    DEVICE_INACTIVE = "device_inactive"
    FREQUENCY_CAP = "frequency_cap"  # The user got as many notifications as the category allows in a time.
    NOT_NEEDED = "not_needed"  # A fallback: the notification on the channel before it was sent.
    # The address bounced permanently before, or its owner complained or answered STOP.
    ADDRESS_SUPPRESSED = "address_suppressed"

    # --- failed ---

    # There is no template for this category, channel and locale, and no fall-back.
    NO_TEMPLATE = "no_template"
    # A variable of the template is missing, or the template does not compile.
    TEMPLATE_ERROR = "template_error"
    INVALID_ADDRESS = "invalid_address"  # The recipient's address is not valid: no provider was called.
    COUNTRY_NOT_ALLOWED = "country_not_allowed"  # No SMS are sent to the country of the recipient's number.
    SPEND_LIMIT = "spend_limit"  # The SMS of the day have cost what the tenant may spend.
    # The provider rejects the message permanently. With the status bounced, a receipt reports it.
    PROVIDER_REJECTED = "provider_rejected"
    DEAD_LETTER = "dead_letter"  # The record of the notification could not be processed.
    UNKNOWN_CHANNEL = "unknown_channel"  # The requested channel does not exist.
    TOO_LARGE = "too_large"  # The message alone is larger than a record or the provider permits.

    # --- bounced ---

    BOUNCED_PERMANENT = "bounced_permanent"  # No message can ever arrive at this address or device.
    BOUNCED_TRANSIENT = "bounced_transient"  # The provider tried to deliver the message, and stopped trying.
    # Like bounced_permanent, this reason puts an address on the suppression list.
    COMPLAINED = "complained"  # The owner of the address marked our messages as spam.

    # --- expired ---

    EXPIRED = "expired"
    # --- cancelled ---
    CANCELLED = "cancelled"
    REPLACED = "replaced"  # The fallback of the notification goes, because this one waited too long.


# The rank of each status. Of two statuses of one notification, the higher rank is kept, so that merging
# never regresses. A proof of publishing outranks every status without publishing: a message that the provider accepted
# was sent, whatever else was decided.
RANK: dict[Status, int] = {
    Status.ACCEPTED: 0,
    Status.SCHEDULED: 10,
    Status.HELD: 11,
    Status.COLLECTED: 12,
    Status.QUEUED: 20,
    Status.SENDING: 30,
    Status.SUPPRESSED: 40,
    Status.CANCELLED: 41,
    Status.EXPIRED: 42,
    Status.FAILED: 43,
    Status.DIGESTED: 44,
    Status.SENT: 50,
    Status.DELIVERED: 60,
    Status.BOUNCED: 61,
}

TERMINAL: frozenset[Status] = frozenset(
    {
        Status.SUPPRESSED,
        Status.CANCELLED,
        Status.EXPIRED,
        Status.FAILED,
        Status.DIGESTED,
        Status.SENT,
        Status.DELIVERED,
        Status.BOUNCED,
    }
)

# The statuses of a notification that the provider accepted, whatever its receipts report.
PUBLISHED: frozenset[Status] = frozenset({Status.SENT, Status.DELIVERED, Status.BOUNCED})


def merge(a: Status, b: Status) -> Status:
    """Return the status of a notification for which two statuses are recorded.

    The rank table above determines the result. The function is commutative, associative and idempotent, so that
    replayed and reordered records have the same result.
    """
    return a if RANK[a] >= RANK[b] else b
