"""Decides about the recipients of a send as the chain does, and delivers nothing.

Each record goes through the rules of preference_checker, builder and delivery in one pass: deferred recipients are
decided about again at the time at which they would be released. Providers accept every message that can be written.
"""

from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from masscomm.chain.cap_counter import CapCounter
from masscomm.chain.chunks import chunk_of, lane_of_send, send_at_of
from masscomm.channels.provider import Sms
from masscomm.channels.provider_calls import Caller
from masscomm.channels.senders import senders_of
from masscomm.clock import Clock, FixedClock
from masscomm.decisions import delivery, fallbacks, messages, plan
from masscomm.decisions.caps import caps_for, wishes_of, with_counted
from masscomm.decisions.chunk import Chunk
from masscomm.decisions.digests import forecast_digests
from masscomm.decisions.results import final_result
from masscomm.directory.layers import related_to
from masscomm.directory.port import Directory
from masscomm.domain.call_results import Call, CallAnswer, WrittenSms
from masscomm.domain.channels import CHANNELS
from masscomm.domain.delays import SEND_AT, RetrySchedule
from masscomm.domain.digests import DELAY_REASON as DIGEST
from masscomm.domain.email_settings import ClubEmails, EmailOrigin, EmailTable
from masscomm.domain.fallbacks import failed, waiting_for
from masscomm.domain.locales import read_locale
from masscomm.domain.outcomes import SENT
from masscomm.domain.provider_errors import CountryNotAllowed, ProviderError
from masscomm.domain.records import BuildRequested, DeliveryRequested, SendRequested
from masscomm.domain.simulator import is_simulated
from masscomm.domain.statuses import PUBLISHED, Reason, Status
from masscomm.domain.users import Device, User
from masscomm.kafka.event import KafkaRecord
from masscomm.rendering.compiler import DEFAULT_LOCALE
from masscomm.rendering.templates import TemplateCache
from masscomm.stores.frequency_caps.port import FrequencyCaps

# The maximum number of samples of a channel, each in another locale, and the maximum size of all samples.
_SAMPLES = 5
_SAMPLE_CHARACTERS = 500_000


class End(NamedTuple):
    """What becomes of a notification. A notification that waits first and is published then has the status of the
    wait: held or scheduled. One that waits in a digest is collected.
    """

    status: Status
    reason: Reason | None = None
    # Whether it is published only if the notification on an earlier channel is not sent.
    is_conditional: bool = False


class Sample(NamedTuple):
    """The message of one recipient."""

    channel: str
    locale: str
    user_id: int
    texts: Mapping[str, str]


class SmsCountry(NamedTuple):
    """The SMS to one country."""

    messages: int = 0
    segments: int = 0
    micro_dollars: int = 0


@dataclass
class Forecast:
    """What becomes of the notifications of a send."""

    # Channel → the number of notifications with each end.
    ends: dict[str, Counter[End]] = field(default_factory=dict)
    # Channel and status → the first and the last time (ms since the epoch) at which waiting notifications are released.
    released: dict[tuple[str, Status], tuple[int, int]] = field(default_factory=dict)
    # The users of at least one message that goes out, now or after a wait.
    reached: set[int] = field(default_factory=set)
    samples: list[Sample] = field(default_factory=list)
    # The platform → the number of pushes to its devices whose bodies would be shortened.
    shortened: Counter[str] = field(default_factory=Counter)
    # Country → the SMS that go out, now or after a wait.
    sms: dict[str, SmsCountry] = field(default_factory=dict)
    # Country → the number of SMS that the club does not send there.
    refused_sms: Counter[str] = field(default_factory=Counter)
    # The number of users without a row in the directory, or with one of another club.
    unknown_users: int = 0
    # Channel → the users whose notification there ends unsent.
    unsent: dict[str, set[int]] = field(default_factory=dict)

    def add(self, channel: str, user_id: int, end: End, wait: "Wait | None" = None) -> None:
        """Add a notification that ends so, after its last wait."""
        if failed(end.status):
            self.unsent.setdefault(channel, set()).add(user_id)
        if wait is not None and end.status in PUBLISHED:
            end = End(wait.status)
            self.add_wait(channel, wait)
        self.ends.setdefault(channel, Counter())[end] += 1

    def add_conditional(self, channel: str, others: "Forecast") -> None:
        """Add the notifications that are decided about only if those on an earlier channel are not sent."""
        counts = self.ends.setdefault(channel, Counter())
        for end, count in others.ends.get(channel, {}).items():
            # The others end unsent in any case.
            counts[end if failed(end.status) else End(Status.SCHEDULED, is_conditional=True)] += count
        for sample in others.samples:
            self.add_sample(sample)

    def add_wait(self, channel: str, wait: "Wait") -> None:
        """Add the time at which a notification is released."""
        first, last = self.released.get((channel, wait.status), (wait.until_ms, wait.until_ms))
        self.released[channel, wait.status] = min(first, wait.until_ms), max(last, wait.until_ms)

    def add_sms(self, sms: WrittenSms) -> None:
        """Add an SMS that goes out."""
        known = self.sms.get(sms.country, SmsCountry())
        self.sms[sms.country] = SmsCountry(
            known.messages + 1, known.segments + sms.segments, known.micro_dollars + sms.micro_dollars
        )

    def add_sample(self, sample: Sample) -> None:
        """Add the sample, if it is the first one of its channel and locale, and the samples are not too many."""
        shown = [read_locale(each.locale) for each in self.samples if each.channel == sample.channel]
        size = sum(len(text) for each in (*self.samples, sample) for text in each.texts.values())
        if read_locale(sample.locale) not in shown and len(shown) < _SAMPLES and size <= _SAMPLE_CHARACTERS:
            self.samples.append(sample)


class Wait(NamedTuple):
    """The last wait of a notification: its status, and the time of the release in ms since the epoch."""

    status: Status
    until_ms: int


class _Request(NamedTuple):
    """Recipients to decide about at a time."""

    chunk: Chunk
    now_ms: int
    wait: Wait | None = None


class _AcceptingPush:
    async def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:  # noqa: ARG002
        return "accepted"


class _AcceptingEmail:
    async def send(self, *, recipient: str, message: bytes, origin: EmailOrigin) -> str:  # noqa: ARG002
        return "accepted"


class _AcceptingSms:
    async def send(self, sms: Sms) -> str:  # noqa: ARG002
        return "accepted"


_SENDERS = senders_of(
    push=_AcceptingPush(),
    email=_AcceptingEmail(),
    sms=_AcceptingSms(),
    emails=EmailTable(default=ClubEmails(origin=EmailOrigin(sender="masscomm@example.com"))),
)


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """Forecasts sends. It reads the directory, and writes nothing."""

    directory: Directory
    templates: TemplateCache
    clock: Clock
    frequency_caps: FrequencyCaps
    retry_schedule: RetrySchedule = field(default_factory=RetrySchedule)

    def forecast(
        self, records: Iterable[SendRequested], topic: str, may_continue: Callable[[], bool] = lambda: True
    ) -> tuple[Forecast, int]:
        """Return what becomes of the recipients of these records, and the number of recipients that were examined.

        Args:
            records: The records of a send, each with the recipients that are looked up together.
            topic: The topic to which they would be produced.
            may_continue: Returns whether the time permits another record.

        Raises:
            Retry: The directory does not answer.
        """
        found, users = Forecast(), 0
        for record in records:
            if users and not may_continue():
                break
            self._add(found, record, topic)
            users += len(record.to_users)
        return found, users

    def _add(self, found: Forecast, record: SendRequested, topic: str) -> None:
        now_ms = self.clock.now_ms()
        request = chunk_of(record, KafkaRecord(topic, 0, 0, timestamp_ms=now_ms))
        related = related_to([(request.user_ids, request.club_id, request.follows)])
        layers = self.directory.users_and_layers(request.user_ids, [request.club_id], related)
        users = layers.users
        # A missing row is not confirmed as absent: waiting for the directory could take longer than the request.
        # guard: dry_run.rules_of_tenant
        view = plan.DirectoryView(**layers._asdict())
        # A user of another tenant reads as an unknown one.
        # guard: tenancy.dry_run_user
        own = {user_id for user_id, user in users.items() if user.club_id == request.club_id}
        found.unknown_users += sum(user_id not in own for user_id in request.user_ids if not is_simulated(user_id))
        chunk = Chunk(
            request=request, lane=lane_of_send(record, topic), is_new=True, queued=False, send_at=send_at_of(record)
        )
        self._forecast(found, fallbacks.active(chunk), view, now_ms)
        # Channel → the users whose notification there waits for no other one.
        all_users, at_once = set(request.user_ids), dict[str, set[int]]()
        for channel, (earlier, _) in waiting_for(request.fallbacks, request.channels).items():
            now = at_once[channel] = at_once.get(earlier, all_users) & found.unsent.get(earlier, set())
            self._forecast(found, _on_channel(chunk, channel, now), view, now_ms)
            others = Forecast()
            self._forecast(others, _on_channel(chunk, channel, all_users - now), view, now_ms)
            found.add_conditional(channel, others)

    def _forecast(self, found: Forecast, chunk: Chunk, view: plan.DirectoryView, now_ms: int) -> None:
        builds: list[tuple[BuildRequested, int, Wait | None]] = []
        pending = [_Request(chunk, now_ms)] if chunk.request.positions else []
        while pending:
            asked = pending.pop()
            planned = self._planned(asked, view)
            self._add_outcomes(found, planned.outcomes, asked.wait)
            pending += [asked._replace(chunk=Chunk(request=part, lane=asked.chunk.lane)) for part in planned.forwarded]
            for part, due_ms in planned.delayed:
                if part.why == DIGEST:
                    found.add_wait(part.channels[0], Wait(Status.COLLECTED, due_ms))
                    continue
                wait = Wait(Status.SCHEDULED if part.why == SEND_AT else Status.HELD, due_ms)
                pending.append(_Request(Chunk(request=part, lane=asked.chunk.lane), due_ms, wait))
            builds += [(build, asked.now_ms, asked.wait) for build in planned.builds]
        self._build(found, builds, view)

    def _planned(self, asked: _Request, view: plan.DirectoryView) -> plan.Plan:
        """Return the plan of preference_checker for a request."""
        chunk, now_ms, _ = asked
        chunk = plan.continue_at_send_at(chunk, now_ms)
        if (planned := plan.plan_without_look_up(chunk, now_ms)) is not None:
            return planned
        deadline_ms = plan.deadline_of(chunk.request, self.retry_schedule)
        decisions = plan.decide_without_look_up(chunk, now_ms)
        if decisions is None:
            decided = forecast_digests(chunk, view, plan.decide_recipients(chunk, view, now_ms, deadline_ms), now_ms)
            decisions = self._counted(chunk, view, now_ms, decided)
        return plan.plan(chunk.request, decisions or {}, now_ms=now_ms, retries=self.retry_schedule)

    def _counted(
        self, chunk: Chunk, view: plan.DirectoryView, now_ms: int, decisions: plan.ByChannel | None
    ) -> plan.ByChannel | None:
        """Return the decisions with those of frequency caps, without taking places."""
        caps = caps_for(chunk)
        if not caps or decisions is None:
            return decisions
        wishes = wishes_of(chunk, view, decisions)
        counter = CapCounter(store=self.frequency_caps, clock=self.clock)
        counted = counter.forecast(chunk.request, caps, wishes, now_ms)
        return with_counted(decisions, wishes, counted, chunk.request.type)

    def _add_outcomes(self, found: Forecast, ranges: Iterable[plan.RangeOutcomes], wait: Wait | None) -> None:
        """Add the final outcomes; deferred recipients are decided about again."""
        for each in ranges:
            for outcome in each.outcomes:
                status = outcome.decision.status
                if status is not None and status not in (Status.SCHEDULED, Status.HELD):
                    found.add(each.channel, outcome.user_id, End(status, outcome.decision.reason), wait)

    def _build(
        self,
        found: Forecast,
        builds: Sequence[tuple[BuildRequested, int, Wait | None]],
        known: plan.DirectoryView,
    ) -> None:
        """Write the messages, and decide about their delivery."""
        locale = next((build.locale for build, _, _ in builds), None)
        keys = [(build.club_id, build.template or build.type, build.channel) for build, _, _ in builds]
        templates = self.templates.load(keys)
        built: list[tuple[DeliveryRequested, int, Wait | None]] = []
        for (build, now_ms, wait), key in zip(builds, keys, strict=True):
            written, parts = messages.write(build, known.users, templates[key])
            users = dict(zip(build.positions, build.user_ids, strict=True))
            for position, decision in written.decisions.items():
                if decision.status is not None:
                    found.add(build.channel, users[position], End(decision.status, decision.reason))
            built += [(messages.delivery_record(build, part, {}, now_ms=now_ms), now_ms, wait) for part in parts]
        devices = self._devices([record for record, _, _ in built])
        for record, now_ms, wait in built:
            view = delivery.DirectoryView(
                settings=known.settings,
                tenants=known.tenants,
                tenant_users=known.tenant_users,
                memberships=known.memberships,
                devices=devices,
                suppressed=self._suppressed(record, now_ms),
                absence_is_confirmed=True,
                awaits_endpoints=False,
            )
            self._deliver(found, record, view, now_ms, wait, known.users, locale)

    def _suppressed(self, record: DeliveryRequested, now_ms: int) -> Collection[str]:
        addresses = [delivery.address_of(record, None, row) for row in range(len(record.addresses))]
        return self.directory.suppressed(record.club_id, list(dict.fromkeys(addresses)), now_ms) if addresses else ()

    def _devices(self, records: Iterable[DeliveryRequested]) -> dict[int, list[Device]]:
        pushed = {
            user_id: None for record in records if CHANNELS[record.channel].to_devices for user_id in record.user_ids
        }
        return self.directory.devices(list(pushed)) if pushed else {}

    def _deliver(
        self,
        found: Forecast,
        record: DeliveryRequested,
        view: delivery.DirectoryView,
        now_ms: int,
        wait: Wait | None,
        users: Mapping[int, User],
        locale: str | None,
    ) -> None:
        caller = Caller(senders=_SENDERS, clock=FixedClock(now_ms))
        recipients = delivery.decide(record, view, rows=range(len(record.positions)), now_ms=now_ms)
        for recipient in recipients:
            answers = [(call, _answer(call)) for call in caller.calls(record, recipient)]
            found.shortened.update(answer.shortened_for for _, answer in answers if answer.shortened_for is not None)
            result = final_result(recipient, answers)
            # Without a result, the message waits for the endpoint of a new device.
            decision = SENT if result is None else result.decision
            end = End(decision.status or Status.SENT, decision.reason)
            found.add(record.channel, recipient.user_id, end, wait)
            found.refused_sms.update(
                answer.error.country for _, answer in answers if isinstance(answer.error, CountryNotAllowed)
            )
            if end.status in PUBLISHED:
                for call, _ in answers:
                    if call.rate.sms is not None:
                        found.add_sms(call.rate.sms)
                found.reached.add(recipient.user_id)
                texts = {column.field: column.value_at(recipient.row) for column in record.content}
                language = locale or users[recipient.user_id].locale or DEFAULT_LOCALE
                found.add_sample(Sample(record.channel, language, recipient.user_id, texts))


def _on_channel(chunk: Chunk, channel: str, users: Collection[int]) -> Chunk:
    """Return some recipients of a chunk on one channel, which waits for no other one."""
    request = chunk.request
    indices = [index for index, user_id in enumerate(request.user_ids) if user_id in users]
    return chunk._replace(request=request.part(indices, channels=[channel], fallbacks=None))


def _answer(call: Call) -> CallAnswer:
    """Return the answer of a provider that accepts each message."""
    making: Any = call.make()
    try:
        return CallAnswer.accepted(_complete(making))
    except ProviderError as error:
        return CallAnswer(error=error)  # guard: dry_run.refused_before_a_provider


def _complete[R](making: Coroutine[Any, Any, R]) -> R:
    """Return the result of a coroutine that waits for nothing."""
    try:
        making.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    making.close()
    raise AssertionError("a provider that accepts everything waits for nothing")
