"""The entries of the audit log: which principal did what, to which tenant, when, and with which result."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import uuid4

from masscomm.domain.time_limits import AUDIT_KEPT_S


class Action(StrEnum):
    """An audited action."""

    SEND_REQUESTED = "send.requested"
    SEND_CANCELLED = "send.cancelled"
    SEND_PAUSED = "send.paused"
    SEND_RESUMED = "send.resumed"
    SEND_MOVED = "send.moved"
    SEND_PACED = "send.paced"
    KEY_CREATED = "key.created"
    KEY_ROTATED = "key.rotated"
    KEY_REVOKED = "key.revoked"
    # A caller has read the values in a dead letter.
    DEAD_LETTER_SHOWN = "dead_letter.shown"
    DEAD_LETTER_REPLAYED = "dead_letter.replayed"
    DEAD_LETTER_DISCARDED = "dead_letter.discarded"
    DEVICE_ENABLED = "device.enabled"
    SUPPRESSION_REMOVED = "suppression.removed"
    WEBHOOK_CREATED = "webhook.created"
    WEBHOOK_CHANGED = "webhook.changed"
    WEBHOOK_DELETED = "webhook.deleted"
    WEBHOOK_ROTATED = "webhook.rotated"
    WEBHOOK_TESTED = "webhook.tested"
    WEBHOOK_RESENT = "webhook.resent"
    # Dead letters of an endpoint were deleted, or sent again.
    WEBHOOK_ACKNOWLEDGED = "webhook.acknowledged"
    WEBHOOK_REPLAYED = "webhook.replayed"
    AUDIENCE_SAVED = "audience.saved"
    AUDIENCE_DELETED = "audience.deleted"
    SCHEDULE_SAVED = "schedule.saved"
    SCHEDULE_PAUSED = "schedule.paused"
    SCHEDULE_RESUMED = "schedule.resumed"
    SCHEDULE_DELETED = "schedule.deleted"
    CATEGORY_STORED = "category.stored"
    TENANT_PREFERENCES_STORED = "tenant_preferences.stored"
    EVENT_TYPE_STORED = "event_type.stored"
    EVENT_TYPE_DELETED = "event_type.deleted"
    SOURCE_STORED = "source.stored"
    SOURCE_DELETED = "source.deleted"
    SUBSCRIPTION_CREATED = "subscription.created"
    SUBSCRIPTION_DELETED = "subscription.deleted"
    # A caller has read a user, or a page of the users of a tenant.
    USER_SHOWN = "user.shown"
    USERS_LISTED = "users.listed"
    DIRECTORY_REBUILT = "directory.rebuilt"
    # A function with the package of webhook_sender disabled the endpoint.
    WEBHOOK_DISABLED = "webhook.disabled"


# The actions that show personal data: each is audited before, and nothing is shown if that fails.
READINGS = frozenset((Action.DEAD_LETTER_SHOWN, Action.USER_SHOWN, Action.USERS_LISTED))


class Result(StrEnum):
    """The result of an action."""

    OK = "ok"
    # The action failed, and may have had a part of its effect.
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One action on one tenant."""

    # The club (tenant); None for an action that concerns every club.
    club_id: int | None
    # The time in milliseconds since the epoch.
    at_ms: int
    # Distinguishes the entries of one millisecond.
    id: str
    # The id of the API key, or `operator:` and the name of the user who ran a command.
    principal: str
    action: str
    # The id of the send, key, webhook endpoint or user, the first and the last id of a page of users, the position of
    # the dead letter, or the digest of the address.
    subject: str
    result: str
    # Further information for people, such as the number of recipients.
    detail: str = ""

    @property
    def expires_at(self) -> int:
        """Return the time after which the entry is deleted, in seconds since the epoch."""
        return self.at_ms // 1000 + AUDIT_KEPT_S


def audit_entry(
    action: Action,
    *,
    club_id: int | None,
    at_ms: int,
    principal: str,
    subject: str,
    result: Result = Result.OK,
    detail: str = "",
) -> AuditEntry:
    """Return a new entry."""
    return AuditEntry(
        club_id=club_id,
        at_ms=at_ms,
        id=str(uuid4()),
        principal=principal,
        action=action.value,
        subject=subject,
        result=result.value,
        detail=detail,
    )
