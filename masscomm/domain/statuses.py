"""The closed vocabularies of statuses and reasons, and the rank by which two statuses are merged."""

from enum import StrEnum


class Status(StrEnum):
    """The status of one notification (one user on one channel)."""

    ACCEPTED = "accepted"  # requested, not decided yet
    SCHEDULED = "scheduled"  # waits for its send_at
    HELD = "held"  # waits for the end of the user's quiet hours
    QUEUED = "queued"  # written, waits for delivery
    SENDING = "sending"  # not finished by delivery: the provider was busy, or an endpoint does not exist yet
    SUPPRESSED = "suppressed"  # must not or cannot be sent to this user: the reason says why
    CANCELLED = "cancelled"  # the send was cancelled before this was published
    EXPIRED = "expired"  # expires_at passed before it could be published
    FAILED = "failed"  # should have been sent and was not
    SENT = "sent"  # the provider accepted it for at least one device
    DELIVERED = "delivered"  # the provider says it arrived
    BOUNCED = "bounced"  # the provider says it came back


class Reason(StrEnum):
    """Why a notification has its status."""

    # suppressed
    OPTED_OUT = "opted_out"  # the user wants none of this category or channel
    # The user is not in the directory, and the directory has passed the send's timestamp; or the user belongs to
    # another club. A tenant must not be able to distinguish the two.
    UNKNOWN_USER = "unknown_user"
    NO_DEVICE = "no_device"  # nothing to push to
    NO_ADDRESS = "no_address"  # no e-mail address
    DEVICE_INACTIVE = "device_inactive"  # every device's endpoint is disabled or gone (bounced: found out afterwards)
    ADDRESS_SUPPRESSED = "address_suppressed"  # it bounced for good before, or its owner complained
    # failed
    NO_TEMPLATE = "no_template"  # no template for this category, channel and locale, nor a fall-back
    TEMPLATE_ERROR = "template_error"  # a variable is missing, or the template does not compile
    PROVIDER_REJECTED = "provider_rejected"  # the provider will never take this message (bounced: said so afterwards)
    DEAD_LETTER = "dead_letter"  # its record could not be processed
    UNKNOWN_CHANNEL = "unknown_channel"  # no such channel
    TOO_LARGE = "too_large"  # the message alone is larger than a record or the provider allows
    # bounced
    BOUNCED_PERMANENT = "bounced_permanent"  # nothing will ever arrive there
    BOUNCED_TRANSIENT = "bounced_transient"  # the provider tried, and stopped trying
    # Why an address is on the suppression list, besides bounced_permanent.
    COMPLAINED = "complained"  # its owner calls what we send spam
    # expired
    EXPIRED = "expired"

    @classmethod
    def _missing_(cls, value: object) -> "Reason | None":
        """Return the reason of a value that earlier versions recorded."""
        return cls(_RENAMED[value]) if isinstance(value, str) and value in _RENAMED else None


# Earlier reason, still stored in decisions and counts → its present name.
_RENAMED = {"other_tenant": "unknown_user"}


def read_reason(stored: str) -> str:
    """Return a stored reason by its present name; a reason outside the vocabulary is unchanged."""
    return _RENAMED.get(stored, stored)


# Merging never regresses: of two statuses of one notification, the higher rank stays. Proof of publishing outranks
# every not-sent status: a message that the provider accepted was sent, whatever else was decided.
RANK: dict[Status, int] = {
    Status.ACCEPTED: 0,
    Status.SCHEDULED: 10,
    Status.HELD: 11,
    Status.QUEUED: 20,
    Status.SENDING: 30,
    Status.SUPPRESSED: 40,
    Status.CANCELLED: 41,
    Status.EXPIRED: 42,
    Status.FAILED: 43,
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
        Status.SENT,
        Status.DELIVERED,
        Status.BOUNCED,
    }
)


def merge(a: Status, b: Status) -> Status:
    """Return the status of a notification for which both statuses are recorded.

    Source: the rank table above; commutative, associative and idempotent, so that replays and reorderings agree.
    """
    return a if RANK[a] >= RANK[b] else b
