"""POST /v1/dry-runs: the forecast of a send, by channel and reason, and samples of its messages.

The recipients are decided about as in the chain (masscomm/chain/dry_run.py). Nothing is produced or recorded. Above
EXACT_RECIPIENTS, the counts are estimated from a sample, which is the same for the same recipients.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from hashlib import blake2b
from heapq import nsmallest
from itertools import batched
from typing import Literal, TypedDict
from uuid import uuid4

from functions.send_handler.registration import begin_problem
from functions.send_handler.send_records import ANONYMOUS, SendIdentity, channels_of, record_of
from functions.send_handler.send_request import SendRequest
from masscomm.chain.dry_run import DryRun, End, Forecast
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.limits import CHUNK_SIZE
from masscomm.domain.outcomes import RANGE_SIZE
from masscomm.domain.pace import minutes_of
from masscomm.domain.records import SendRequested
from masscomm.domain.simulator import RECIPIENTS as SIMULATOR_RECIPIENTS
from masscomm.domain.simulator import is_simulated
from masscomm.domain.sms_settings import MICRO, sms_table
from masscomm.domain.statuses import PUBLISHED, Reason, Status
from masscomm.domain.time_limits import DRY_RUN_AUDIENCE_RESERVE_S, DRY_RUN_RESERVE_S
from masscomm.http.audiences import audience_of
from masscomm.http.parameters import time_of_ms
from masscomm.http.problem import FieldError, FieldErrorBody
from masscomm.http.scopes import Scope
from masscomm.http.single_users import check_group, sees_single_users
from masscomm.http.unused_content import ContentChecks
from masscomm.kafka import topics
from masscomm.rendering.templates import TemplateCache
from masscomm.stores.frequency_caps.port import FrequencyCaps
from masscomm.stores.sends.port import Sends
from masscomm.texts import Text

# The largest number of recipients of which each one is decided about.
EXACT_RECIPIENTS = 10_000


class DryRunReason(TypedDict):
    """Notifications with the same end."""

    status: Status
    reason: Reason | None
    count_total: int
    first_at: str | None
    """The time at which the first of these notifications is released; null: they do not wait."""
    last_at: str | None


class DryRunChannel(TypedDict):
    """What becomes of the notifications on a channel. Each is counted in one of the numbers."""

    channel: str
    requested: int
    deliverable: int
    """Notifications that a provider would get now."""
    held: int
    """Notifications that a provider would get after the user's quiet hours."""
    scheduled: int
    """Notifications that a provider would get at the send's time."""
    collected: int
    """Notifications that would wait in digests of their users."""
    if_needed: int
    """Notifications of a fallback that a provider would get if those on the channel before it are not sent."""
    suppressed: int
    failed: int
    expired: int
    reasons: list[DryRunReason]
    """By status and reason, without those that are deliverable as usual."""


class DryRunSample(TypedDict):
    """The message of a recipient."""

    channel: str
    locale: str
    user_id: int
    fields: dict[str, str]
    """The texts: title, body and url of a push; subject, text and html of an e-mail."""


class DryRunCountry(TypedDict):
    """The SMS to one country."""

    country: str
    """ISO 3166, two letters; empty: a number of no country."""
    messages: int
    segments: int
    usd: float


class DryRunRefusedCountry(TypedDict):
    """The SMS that the tenant does not send to a country."""

    country: str
    messages: int


class DryRunSms(TypedDict):
    """The SMS that go out, now or later, with the segments and the prices by which they are billed."""

    segments: int
    usd: float
    prices_as_of: str
    """The day of the prices."""
    countries: list[DryRunCountry]
    refused: list[DryRunRefusedCountry]


class DryRunBody(TypedDict):
    """What would become of a send. Nothing was sent."""

    dry_run: Literal[True]
    requested: int
    """Distinct notifications: a user on a channel."""
    reached: int
    """Distinct users who would get at least one message, now or later."""
    duplicates: int
    """Repeated users; they are not counted in `requested`."""
    estimated: bool
    """Whether the counts are estimated from a sample of the recipients."""
    minutes: int | None
    """How many minutes the send takes at its pace; null: it has none."""
    counted_at: str
    """The time of the counts. Users, devices and preferences may be others when the send is due."""
    channels: list[DryRunChannel]
    sms: DryRunSms | None
    """null: no SMS goes out or is refused for its country."""
    samples: list[DryRunSample]
    """One message for each channel and locale, at most five a channel; empty without the scope users:read."""
    warnings: list[FieldErrorBody]


@dataclass(frozen=True)
class _Recipients:
    """The recipients of a send."""

    # All recipients in the order of the send, or a sample of them in an order that does not depend on the send's.
    user_ids: Sequence[int]
    # The number of all recipients.
    total: int
    # Whether all users of the audience were read.
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class DryRunSend:
    """The use case of dry runs. Each function environment has one instance."""

    directory: Directory
    templates: TemplateCache
    clock: Clock
    sends: Sends
    frequency_caps: FrequencyCaps

    def identify(self, send: SendRequest) -> SendIdentity:
        """Return the identity that the send would have now. Raises the problem of begin_problem, and its errors."""
        now_ms = self.clock.now_ms()
        if problem := begin_problem(send, now_ms, self.sends):
            raise problem
        return SendIdentity(send_id=send.send_id or str(uuid4()), requested_at_ms=now_ms, chunk_size=CHUNK_SIZE)

    def answer(
        self,
        send: SendRequest,
        identity: SendIdentity,
        remaining_s: Callable[[], float],
        *,
        is_test: bool,
        scopes: AbstractSet[Scope],
    ) -> DryRunBody:
        """Return the response body. The audience of a test key is the simulator recipients.

        Raises Problem with status 403 if the response would show single users and the scopes lack users:read,
        or Retry if the directory does not answer.
        """
        recipients = self._recipients(send, remaining_s, is_test=is_test)
        if send.audience is not None and not is_test:
            check_group(scopes, recipients.total)
        topic = topics.in_lane(topics.SEND_API, send.lane(identity.requested_at_ms))
        dry_run = DryRun(
            directory=self.directory, templates=self.templates, clock=self.clock, frequency_caps=self.frequency_caps
        )
        found, examined = dry_run.forecast(
            _records(send, identity, recipients), topic, lambda: remaining_s() > DRY_RUN_RESERVE_S
        )
        simulated = sum(map(is_simulated, set(send.to_users)))
        if send.audience is None and simulated < send.recipients:
            # Simulator recipients and unknown ids would only hide how few users the numbers are about.
            check_group(scopes, examined - found.unknown_users - simulated)
        channels = channels_of(send, identity)
        checks = ContentChecks(self.templates)
        unused = checks.unused(send.content(), send.template_keys(), send.variable_names)
        return {
            "dry_run": True,
            "requested": recipients.total * len(channels),
            # An audience may be empty.
            "reached": round(len(found.reached) * recipients.total / examined) if examined else 0,
            "duplicates": len(send.to_users) - send.recipients,
            "estimated": examined < recipients.total or not recipients.complete,
            "minutes": minutes_of(send.per_minute, send.spread_over_ms, recipients.total),
            "counted_at": time_of_ms(identity.requested_at_ms),
            "channels": [_channel(name, found, recipients.total) for name in channels],
            "sms": _sms(found, recipients.total / examined if examined else 1),
            "samples": [
                {
                    "channel": sample.channel,
                    "locale": sample.locale,
                    "user_id": sample.user_id,
                    "fields": dict(sample.texts),
                }
                for sample in found.samples
                if sees_single_users(scopes)  # guard: single_users.samples
            ],
            "warnings": [each.body() for each in (*unused, *_warnings_of(recipients, found, examined))],
        }

    def _recipients(self, send: SendRequest, remaining_s: Callable[[], float], *, is_test: bool) -> _Recipients:
        if send.audience is None:
            users = list(dict.fromkeys(send.to_users))
            return _Recipients(users if len(users) <= EXACT_RECIPIENTS else _sample(users), len(users))
        if is_test:  # guard: simulator.dry_run
            return _Recipients(SIMULATOR_RECIPIENTS, len(SIMULATOR_RECIPIENTS))
        audience, _ = audience_of(send.audience)
        users, total = list[int](), 0
        for page in self.directory.members_of_club(send.club_id, audience):
            total += len(page.user_ids)
            users += page.user_ids
            if len(users) > 2 * EXACT_RECIPIENTS:  # The sample of samples is the sample of all.
                users = _sample(users)
            if remaining_s() < DRY_RUN_AUDIENCE_RESERVE_S:
                return _Recipients(_sample(users), total, complete=False)
        return _Recipients(users if total <= EXACT_RECIPIENTS else _sample(users), total)


def _sample(users: Sequence[int]) -> list[int]:
    """Return at most EXACT_RECIPIENTS users: those whose ids have the smallest digests, in the order of the digests."""
    return nsmallest(EXACT_RECIPIENTS, users, key=_digest)


def _digest(user_id: int) -> bytes:
    return blake2b(user_id.to_bytes(8, signed=True), digest_size=8).digest()


def _records(send: SendRequest, identity: SendIdentity, recipients: _Recipients) -> Iterator[SendRequested]:
    """Yield the records of the send, each with the recipients that are decided about together in the chain, too."""
    small = recipients.total <= RANGE_SIZE
    follows = None if send.audience is None else send.audience.get("follows")
    for index, users in enumerate(batched(recipients.user_ids, RANGE_SIZE, strict=False)):
        record = replace(record_of(send, identity, ANONYMOUS, index, 1, users), follows=follows)
        yield record if small else replace(record, chunk_count=-(-recipients.total // RANGE_SIZE))


def _warnings_of(recipients: _Recipients, found: Forecast, examined: int) -> Iterator[FieldError]:
    where = "to_users" if recipients.complete else "audience"
    if not recipients.complete:
        message = Text.AUDIENCE_CUT.filled(users=recipients.total)
        yield FieldError(where, message)
    if examined < recipients.total:
        yield FieldError(where, Text.COUNTS_ESTIMATED.filled(examined=examined, total=recipients.total))
    for platform, pushes in sorted(found.shortened.items()):
        message = Text.PUSHES_SHORTENED.filled(pushes=round(pushes * recipients.total / examined), platform=platform)
        yield FieldError("channels", message)
    if found.unknown_users:
        message = Text.USERS_UNKNOWN.filled(unknown=found.unknown_users, examined=examined)
        yield FieldError(where, message)


def _channel(name: str, found: Forecast, total: int) -> DryRunChannel:
    """Return the numbers of a channel, scaled to `total` recipients."""
    counts = _scaled(found.ends.get(name, {}), total)
    if_needed = sum(n for end, n in counts.items() if end.is_conditional)
    counts = {end: n for end, n in counts.items() if not end.is_conditional}
    by_status = {status: sum(n for end, n in counts.items() if end.status is status) for status in Status}
    return {
        "channel": name,
        "requested": total,
        "deliverable": sum(by_status[status] for status in PUBLISHED),
        "held": by_status[Status.HELD],
        "scheduled": by_status[Status.SCHEDULED],
        "collected": by_status[Status.COLLECTED],
        "if_needed": if_needed,
        "suppressed": by_status[Status.SUPPRESSED],
        "failed": by_status[Status.FAILED],
        "expired": by_status[Status.EXPIRED],
        "reasons": [
            _reason(name, end, count, found)
            for end, count in sorted(counts.items(), key=lambda each: (-each[1], each[0].status, each[0].reason or ""))
            if end != End(Status.SENT)
        ],
    }


def _sms(found: Forecast, scale: float) -> DryRunSms | None:
    """Return the SMS, scaled from the examined recipients to all."""
    as_of = sms_table().prices_as_of
    if as_of is None or not (found.sms or found.refused_sms):
        return None
    countries: list[DryRunCountry] = [
        {
            "country": country,
            "messages": round(each.messages * scale),
            "segments": round(each.segments * scale),
            "usd": round(each.micro_dollars * scale / MICRO, 2),
        }
        for country, each in sorted(found.sms.items())
    ]
    return {
        "segments": sum(each["segments"] for each in countries),
        "usd": round(sum(each.micro_dollars for each in found.sms.values()) * scale / MICRO, 2),
        "prices_as_of": as_of.isoformat(),
        "countries": countries,
        "refused": [
            {"country": country, "messages": round(count * scale)}
            for country, count in sorted(found.refused_sms.items())
        ],
    }


def _reason(channel: str, end: End, count: int, found: Forecast) -> DryRunReason:
    times = found.released.get((channel, end.status))
    return {
        "status": end.status,
        "reason": end.reason,
        "count_total": count,
        "first_at": None if times is None else time_of_ms(times[0]),
        "last_at": None if times is None else time_of_ms(times[1]),
    }


def _scaled(counts: Mapping[End, int], total: int) -> dict[End, int]:
    """Return the counts in the same proportions, scaled to a sum of `total`."""
    examined = sum(counts.values())
    if examined in (0, total):
        return dict(counts)
    scaled = {end: divmod(count * total, examined) for end, count in counts.items()}
    missing = total - sum(whole for whole, _ in scaled.values())
    up = sorted(scaled, key=lambda end: (-scaled[end][1], end.status, end.reason or ""))[:missing]
    return {end: whole + (end in up) for end, (whole, _) in scaled.items() if whole or end in up}
