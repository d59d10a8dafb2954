"""The endpoints of webhooks, masscomm's own events, and the results of attempts to send an event."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from masscomm.domain.aws_targets import AwsTarget, target_of
from masscomm.domain.time_limits import (
    EVENT_ATTEMPT_S,
    EVENT_LEAST_WAIT_S,
    WEBHOOK_ATTEMPT_S,
    WEBHOOK_DISABLED_AFTER_S,
    WEBHOOK_FAILING_DELIVERY_S,
    WEBHOOK_RETRY_AFTER_LIMIT_S,
    WEBHOOK_RETRY_DELAYS_S,
    WEBHOOK_SECRET_OVERLAP_S,
)
from masscomm.domain.webhook_authentication import Authentication
from masscomm.integers import integer_or

# The version of the bodies of events. Under the same version fields are added only.
API_VERSION = "v1"
MAX_ENDPOINTS = 16
# The parts of all endpoints, by which the topic `webhook` is keyed: an endpoint's messages are in one partition.
BUCKETS = 64
MAX_DESCRIPTION = 200
# The limits of the settings of an endpoint for events: the messages and the bytes of a request, its concurrent requests
# and the messages a second.
MAX_COUNT, MAX_CONCURRENCY, MAX_RATE = 1_000, 32, 10_000
LEAST_BYTES, MAX_BYTES = 1_000, 1_000_000
DEFAULT_BYTES, DEFAULT_CONCURRENCY = 256_000, 8
# The maximum number of attempts of a message.
MAX_ATTEMPTS = len(WEBHOOK_RETRY_DELAYS_S) + 1
# The part of a delay that is added to it, so that deliveries that failed together are not repeated together.
_JITTER = 0.1
GONE = 410
_ID_LETTERS = 20
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_KEY = re.compile(r"ep_(?P<club>[0-9]{1,19})_[0-9a-z]{20}", re.ASCII)


class EventType(StrEnum):
    """The type of an event."""

    ACCEPTED = "send.accepted"  # The send is known: its recipients are being decided about.
    EXPANDED = "send.expanded"  # The users of the send's audience are found.
    PAUSED = "send.paused"
    RESUMED = "send.resumed"
    COMPLETED = "send.completed"  # Each notification has ended.
    CANCELLED = "send.cancelled"  # Each notification has ended, at least one of them as cancelled.
    FAILED = "send.failed"  # The send's audience could not be expanded.
    TEST = "webhook.test"
    DISABLED = "webhook.disabled"  # masscomm disabled an endpoint, for example after days of failures.


class NotificationEventType(StrEnum):
    """The type of an event of a notification, by its status. An endpoint gets these events by a subscription alone."""

    SENT = "notification.sent"
    DELIVERED = "notification.delivered"
    BOUNCED = "notification.bounced"
    FAILED = "notification.failed"
    SUPPRESSED = "notification.suppressed"


# The types of masscomm's own events on the topic `event`, which need no description by an operator.
OWN_EVENT_TYPES = frozenset[str](EventType)


class BodyFormat(StrEnum):
    """The form in which an endpoint receives events of systems."""

    MASSCOMM = "masscomm"
    CLOUD_EVENTS = "cloudevents"  # The structured form of CloudEvents 1.0.


class EndpointKey(NamedTuple):
    """Identifies an endpoint."""

    club_id: int
    id: str

    @property
    def text(self) -> str:
        return f"{self.club_id}#{self.id}"

    @classmethod
    def of_text(cls, text: str) -> "EndpointKey":
        """Return the key in a text. Raises ValueError."""
        club_id, _, id_ = text.partition("#")
        return cls(int(club_id), id_)

    @classmethod
    def of_id(cls, id_: str) -> "EndpointKey | None":
        """Return the key of an endpoint's id, which contains its club; None if no endpoint has this id."""
        found = _KEY.fullmatch(id_)
        club_id = None if found is None else integer_or(found["club"], None)
        return None if club_id is None else cls(club_id, id_)

    @classmethod
    def new(cls, club_id: int, seed: bytes) -> "EndpointKey":
        """Return the key of a new endpoint. `seed` has 20 random bytes or more."""
        return cls(club_id, f"ep_{club_id}_{''.join(_LETTERS[each % len(_LETTERS)] for each in seed[:_ID_LETTERS])}")


def bucket_of(endpoint_id: str) -> int:
    """Return the bucket of an endpoint."""
    return int.from_bytes(blake2b(endpoint_id.encode(), digest_size=4).digest()) % BUCKETS


class Rotation(NamedTuple):
    """What a request under an Idempotency-Key that rotates a secret has made."""

    # The digest of the request (masscomm.http.idempotency.digest_of).
    request: str
    # The signing key and the version of the secret.
    key_id: str
    version: int


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An address of a tenant that receives events. Times are in milliseconds since the epoch."""

    key: EndpointKey
    url: str
    # The types of the events that it receives; empty: every type.
    event_types: tuple[str, ...] = ()
    description: str = ""
    format: BodyFormat = BodyFormat.MASSCOMM
    # The user of the tenant who gets an e-mail when masscomm disables it; None: no e-mail is sent.
    contact_user_id: int | None = None
    enabled: bool = True
    # Why it was disabled; "" if it is enabled.
    disabled_reason: str = ""
    created_at_ms: int
    # The signing key and the version from which its secret is derived (masscomm.domain.webhook_signatures).
    key_id: str
    secret_version: int = 1
    # The signing key of the previous secret, and the end of its validity; None: there is no previous secret.
    previous_key_id: str | None = None
    previous_until_ms: int | None = None
    # The first failed attempt since the last successful one; None: the last attempt succeeded.
    failing_since_ms: int | None = None
    # The time from which one message probes a failing endpoint, and the number of failed probes.
    probe_at_ms: int | None = None
    failed_probes: int | None = None
    # Whether its last answers needed more than EVENT_ATTEMPT_S.
    is_slow: bool = False
    # The most messages and bytes of a request with events; one message: each has a request of its own.
    max_count: int = 1
    max_bytes: int = DEFAULT_BYTES
    # The most seconds that a message waits for others of its request.
    max_wait_s: int = 1
    # The time since which messages with the same key are sent in their order; None: they are not.
    ordered_since_ms: int | None = None
    # The concurrent requests, and the messages a second (None: no limit): for first attempts, and again for the others.
    max_concurrency: int = DEFAULT_CONCURRENCY
    rate_per_s: int | None = None
    # The last time at which a request enabled it again; None: it is as it was created.
    enabled_at_ms: int | None = None
    # The digests of the Idempotency-Keys of the requests that made the current secret and the previous one; "": none.
    rotation_digest: str = ""
    previous_rotation_digest: str = ""
    # The digests of these requests, which contain their principals; "": none.
    rotation_request: str = ""
    previous_rotation_request: str = ""
    # The role with which messages are sent to a queue or an event bus, whose ARN is the URL; None: it is a server.
    role_arn: str | None = None
    # How requests are authenticated; None: by their signature only.
    authentication: Authentication | None = None
    # The authentication before, and until when it is used for a request that is refused; None: there is none.
    previous_authentication: Authentication | None = None
    previous_authentication_until_ms: int | None = None
    # The number of changes.
    revision: int = 1

    @property
    def target(self) -> AwsTarget | None:
        """Return the queue or the event bus that receives the messages; None for a server."""
        return None if self.role_arn is None else target_of(self.url)

    @property
    def is_batched(self) -> bool:
        """Return whether a request may have several messages: they wait for each other."""
        return self.max_count > 1

    @property
    def is_ordered(self) -> bool:
        """Return whether a message waits until those before it with the same key are accepted or given up."""
        return self.ordered_since_ms is not None

    def gathered_until_ms(self, now_ms: int) -> int:
        """Return the time until which a message that arrives now waits for others in the delay store, so that the next
        sweep releases it within `max_wait_s`. It is the same for all that arrive in a span of time, and the spans of
        endpoints end at different times.
        """
        span_ms = (self.max_wait_s - EVENT_LEAST_WAIT_S) * 1000
        if span_ms <= 0:
            return now_ms
        offset_ms = span_ms * bucket_of(self.key.id) // BUCKETS
        return ((now_ms - offset_ms) // span_ms + 1) * span_ms + offset_ms

    def secret_versions(self, now_ms: int) -> Sequence[tuple[str, int]]:
        """Return (signing key, version) of each secret that signs, the current one first."""
        versions = [(self.key_id, self.secret_version)]
        # guard: webhooks.previous_secret
        if self.previous_until_ms is not None and now_ms < self.previous_until_ms:
            versions.append((self.previous_key_id or self.key_id, self.secret_version - 1))
        return versions

    def rotation_under(self, rotation_digest: str, now_ms: int) -> Rotation | None:
        """Return what a request under an Idempotency-Key has made; None if its secret does not exist, or is older than
        the overlap of two secrets.
        """
        if self.previous_until_ms is None or now_ms >= self.previous_until_ms:
            return None
        digests = (self.rotation_digest, self.previous_rotation_digest)
        requests = (self.rotation_request, self.previous_rotation_request)
        made = zip(digests, requests, self.secret_versions(now_ms), strict=True)
        return next((Rotation(request, *secret) for digest, request, secret in made if digest == rotation_digest), None)

    def rotated(self, *, key_id: str, now_ms: int, rotation_digest: str = "", rotation_request: str = "") -> "Endpoint":
        """Return the endpoint with a new secret. The previous one also signs for a while."""
        return replace(
            self,
            rotation_digest=rotation_digest,
            previous_rotation_digest=self.rotation_digest,
            rotation_request=rotation_request,
            previous_rotation_request=self.rotation_request,
            key_id=key_id,
            secret_version=self.secret_version + 1,
            previous_key_id=self.key_id,
            previous_until_ms=now_ms + WEBHOOK_SECRET_OVERLAP_S * 1000,
        )

    def authenticated(self, authentication: Authentication | None, now_ms: int) -> "Endpoint":
        """Return the endpoint with another authentication. The previous one stays in use for a while, unless there is
        none now.
        """
        is_rotated = authentication is not None and self.authentication is not None
        return replace(
            self,
            authentication=authentication,
            previous_authentication=self.authentication if is_rotated else None,
            previous_authentication_until_ms=now_ms + WEBHOOK_SECRET_OVERLAP_S * 1000 if is_rotated else None,
        )

    def authentications(self, now_ms: int) -> Sequence[Authentication]:
        """Return the authentications in use, the current one first."""
        # guard: webhook_authentication.overlap
        is_previous = (
            self.previous_authentication_until_ms is not None and now_ms < self.previous_authentication_until_ms
        )
        both = (self.authentication, self.previous_authentication if is_previous else None)
        return [each for each in both if each is not None]

    def after(self, attempt: "Attempt", *, tried_since_ms: int, is_probe: bool = False) -> "Endpoint":
        """Return the endpoint after an attempt, which may disable it.

        Args:
            attempt: The attempt.
            tried_since_ms: The time of the first attempt of the same message.
            is_probe: Whether it is the probe of a failing endpoint: the next one then has a longer delay.
        """
        if attempt.succeeded:
            return replace(self.without_failures(), is_slow=attempt.is_slow)
        since_ms = self.failing_since_ms or attempt.at_ms
        reason = ""
        if attempt.status == GONE:  # guard: webhooks.gone
            reason = "The endpoint answered 410 Gone."
        elif (
            attempt.at_ms - since_ms >= WEBHOOK_DISABLED_AFTER_S * 1000  # guard: webhooks.failing_for_days
            # guard: webhooks.failure_after_silence
            and attempt.at_ms - tried_since_ms >= WEBHOOK_FAILING_DELIVERY_S * 1000
        ):
            reason = f"No attempt succeeded for {WEBHOOK_DISABLED_AFTER_S // 86_400} days."
        failed, probe_at_ms = self.failed_probes or 0, self.probe_at_ms
        # guard: events.schedule_of_probes
        if is_probe or self.failing_since_ms is None:
            failed = min(failed + 1, MAX_ATTEMPTS - 1)
            probe_at_ms = attempt.at_ms + retry_delay_ms(self.key.id, failed, attempt)
        return replace(
            self,
            failing_since_ms=since_ms,
            failed_probes=failed,
            probe_at_ms=probe_at_ms,
            is_slow=self.is_slow or attempt.is_slow,
            enabled=self.enabled and not reason,
            disabled_reason=self.disabled_reason or reason,
        )

    def without_failures(self) -> "Endpoint":
        """Return the endpoint as if no attempt had failed: its server, or its state, is another one."""
        return replace(self, failing_since_ms=None, probe_at_ms=None, failed_probes=None, is_slow=False)

    def probed(self, now_ms: int) -> "Endpoint":
        """Return the endpoint while one message probes it: another one does so only if this one has no result."""
        return replace(self, probe_at_ms=now_ms + 2 * round(WEBHOOK_ATTEMPT_S * 1000))


class DeliveryStatus(StrEnum):
    PENDING = "pending"  # The event is sent again later.
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # All attempts failed, or the endpoint is disabled or deleted.


class AttemptResult(StrEnum):
    """The result of an attempt to send a message with an event."""

    DELIVERED = "delivered"
    RETRIED = "retried"  # The attempt failed, and another follows.
    GIVEN_UP = "given_up"  # No attempt follows.


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt to send a message."""

    at_ms: int
    duration_ms: int
    # The status of the response; None: there was none.
    status: int | None = None
    # Why there was no response, or no attempt; "" otherwise.
    error: str = ""
    # The number of seconds after which the endpoint wants to be called again; None: it did not say.
    retry_after_s: int | None = None

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_slow(self) -> bool:
        """Return whether it needed the time that a first attempt has, with an answer or without."""
        return self.duration_ms >= EVENT_ATTEMPT_S * 1000


def retry_delay_ms(seed: str, tries: int, attempt: Attempt) -> int:
    """Return the delay after a failed attempt, as the endpoint asked for or by the published schedule.

    Args:
        seed: From it the jitter is derived, such as the id of the message.
        tries: The number of attempts so far, from 1 to MAX_ATTEMPTS - 1.
        attempt: The last of them.
    """
    delay_s = WEBHOOK_RETRY_DELAYS_S[tries - 1]
    asked_s = min(
        attempt.retry_after_s or 0,
        WEBHOOK_RETRY_AFTER_LIMIT_S,  # guard: webhooks.retry_after
    )
    share = int.from_bytes(blake2b(f"{seed}{tries}".encode(), digest_size=8).digest()) / 2**64
    return round(max(delay_s * (1 + _JITTER * share), asked_s) * 1000)


def retry_after_s(text: str | None, now_ms: int) -> int | None:
    """Return the seconds in the header Retry-After, a number or a date; None if it is missing or malformed."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return int(text[:9])
    try:
        moment = parsedate_to_datetime(text)
        return max(0, round(moment.timestamp() - now_ms / 1000))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
