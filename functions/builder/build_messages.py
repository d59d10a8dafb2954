"""Renders the messages of a batch of build records. Equal texts are rendered once."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import checked
from masscomm.chain.outcome_emitter import OutcomeEmitter
from masscomm.clock import Clock
from masscomm.decisions import messages
from masscomm.decisions.messages import Part, Written
from masscomm.directory.confirmation import Confirmation
from masscomm.directory.port import Directory
from masscomm.domain.categories import caps_of
from masscomm.domain.channels import CHANNELS
from masscomm.domain.outcomes import CANCELLED, DEAD_LETTERED, RecipientOutcome
from masscomm.domain.preferences import Decision, is_member
from masscomm.domain.push_options import is_silent
from masscomm.domain.records import BuildRequested
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.users import Template, User
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.rendering.templates import TemplateCache, literal_fields
from masscomm.stores.decision_log.port import DecisionLog, Decisions, record_decisions
from masscomm.stores.sends.port import Sends, send_of

# The number of threads for concurrent look-ups and writes: recording a whole batch takes the time of one or two writes.
_THREADS = 10


@dataclass(frozen=True, kw_only=True)
class BuildMessages:
    """The use case of the builder function. Each function environment has one instance."""

    directory: Directory
    templates: TemplateCache
    clock: Clock
    decision_log: DecisionLog
    sends: Sends
    pool: Executor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS))

    def decode(self, record: KafkaRecord, codec: Codec) -> BuildRequested:
        """Decode and check a build record. Raises DeadLetter or Retry."""
        build = checked(BuildRequested.from_avro(codec.decode("BuildRequested", record.value)))
        if build.channel not in CHANNELS:
            raise DeadLetter("invalid", f"no build record: channel {build.channel!r}")
        return build

    def handle(self, batch: Batch[BuildRequested]) -> None:
        items = batch.active()
        if not items:
            return
        users, templates, controls = self._look_up([item.value for item in items])
        now_ms = self.clock.now_ms()
        confirmation = Confirmation(directory=self.directory, remaining_s=batch.remaining_s)
        drafts: list[Draft] = []
        for item in items:
            control = controls.get(send_of(item.value))
            batch.attempt(item, partial(self._draft, item, control, now_ms, confirmation, users, templates, drafts))
        for draft, decided in [(draft, self._begin_recording(draft)) for draft in drafts]:
            batch.attempt(draft.item, partial(self._emit, batch, draft, decided))

    def _look_up(
        self, builds: Sequence[BuildRequested]
    ) -> tuple[dict[int, User], dict[tuple[int, str, str], list[Template]], Mapping[SendKey, SendControl]]:
        """Look up users, templates and controls of sends in parallel: round trips add to one-time-password latency.

        Raises Retry.
        """
        controls = self.pool.submit(self.sends.controls, {send_of(build) for build in builds if _is_ended_here(build)})
        templates = self.pool.submit(self.templates.load, [_key(build) for build in builds])
        users = self.directory.users(list(dict.fromkeys(user for build in builds for user in build.user_ids)))
        return users, templates.result(), controls.result()

    def dead_lettered(self, batch: Batch[BuildRequested], item: Item[BuildRequested], why: DeadLetter) -> None:  # noqa: ARG002
        """Produce outcome records with the status failed for all recipients of a dead-lettered record."""
        self._emit_outcomes(batch, item, dict.fromkeys(item.value.positions, DEAD_LETTERED))

    def _draft(
        self,
        item: Item[BuildRequested],
        control: SendControl | None,
        read_ms: int,
        confirmation: Confirmation,
        users: dict[int, User],
        templates: Mapping[tuple[int, str, str], list[Template]],
        drafts: "list[Draft]",
    ) -> None:
        """Append the draft (messages and decisions) of one record to `drafts`. The control of its send was read at
        `read_ms`. Raises Retry.
        """
        if control is not None and _is_ended_here(item.value) and control.is_cancelled(read_ms):
            written = Written(decisions=dict.fromkeys(item.value.positions, CANCELLED))
            drafts.append(Draft(item=item, written=written, parts=[]))
            return
        build, found = item.value, templates[_key(item.value)]
        if not all(is_member(users.get(user_id), build.club_id) for user_id in build.user_ids):
            users = users | self._look_up_again(confirmation, build, lambda: self.directory.users(build.user_ids))
        needs_template = not is_silent(build.push, build.channel) and literal_fields(build.channel, build.data) is None
        if not found and needs_template:
            found = self._look_up_again(confirmation, build, lambda: self._templates_now(build))
        written, parts = messages.write(build, users, found)
        drafts.append(Draft(item=item, written=written, parts=parts))

    def _begin_recording(self, draft: "Draft") -> Callable[[], Decisions]:
        """Return a function that waits for the recorded decisions. The decision about a single recipient mostly needs
        no write, so it needs no thread either.
        """
        build = draft.item.value
        lane = topics.lane_of(draft.item.record.topic)
        # Its outcome gives back the place that a frequency cap has counted, so that the first one has to stay.
        is_capped = bool(caps_of(build.type, build.club_id, build.timestamp, lane))  # guard: frequency_caps.built_once
        record = partial(self._record_decisions, draft, is_capped=is_capped)
        return record if len(build.positions) == 1 and not is_capped else self.pool.submit(record).result

    def _record_decisions(self, draft: "Draft", *, is_capped: bool) -> Decisions:
        build = draft.item.value
        decisions = Decisions(
            positions=build.positions,
            user_ids=build.user_ids,
            by_channel={build.channel: draft.written.decisions},
            parts=tuple((part.start, part.end) for part in draft.parts),
        )
        return record_decisions(self.decision_log, build.record_id, decisions, is_single_recorded=is_capped)

    def _emit(self, batch: Batch[BuildRequested], draft: "Draft", recorded: Callable[[], Decisions]) -> None:
        """Produce the delivery records and outcome records that follow from the decisions recorded first.

        Recipients whose message can no longer be rendered are included in the delivery record as withdrawn: an earlier
        attempt may have produced their message, and only the delivery function knows whether it was sent.
        """
        item, written_now, decided = draft.item, draft.written, recorded()
        build = item.value
        decisions = decided.by_channel.get(build.channel, {})
        withdrawn = {position: why for position, why in written_now.decisions.items() if position not in decisions}
        written = {message.position: message for message in written_now.messages}
        still_allowed = [
            messages.blank(position, user_id) if position in withdrawn else written[position]
            for position, user_id in zip(build.positions, build.user_ids, strict=True)
            if position not in decisions
        ]
        for part in messages.fitting(still_allowed, decided.parts, messages.MAX_GROWN_BYTES):
            too_large = messages.too_large([part], messages.MAX_GROWN_BYTES)
            record = messages.delivery_record(build, part, withdrawn | too_large, now_ms=self.clock.now_ms())
            batch.produce(item, topics.same_lane(topics.DELIVERY, item.record.topic), record.record_id, record)
        self._emit_outcomes(batch, item, decisions)

    def _look_up_again[V](self, confirmation: Confirmation, build: BuildRequested, look_up: Callable[[], V]) -> V:
        """Repeat a look-up that missed rows, once the directory is complete up to the time of the request. Raises
        Retry.
        """
        confirmation.confirm(min(build.timestamp, self.clock.now_ms()))
        return look_up()

    def _templates_now(self, build: BuildRequested) -> list[Template]:
        self.templates.forget(_key(build))
        return self.templates.load([_key(build)])[_key(build)]

    def _emit_outcomes(
        self,
        batch: Batch[BuildRequested],
        item: Item[BuildRequested],
        decisions: Mapping[int, Decision],
    ) -> None:
        build = item.value
        outcomes = [
            RecipientOutcome(position, user_id, decisions[position])
            for position, user_id in zip(build.positions, build.user_ids, strict=True)
            if position in decisions
        ]
        emitter = OutcomeEmitter(step="build", clock=self.clock, directory=self.directory)
        emitter.emit(batch, item, build, build.channel, (build.range_start, build.range_end), outcomes)


def _is_ended_here(build: BuildRequested) -> bool:
    """Return whether this function ends the record of a cancelled send. A single recipient continues: the decision log
    has no entry for it, so only the delivery function can end it.
    """
    return len(build.positions) > 1


def _key(build: BuildRequested) -> tuple[int, str, str]:
    return build.club_id, build.template or build.type, build.channel


class Draft(NamedTuple):
    """The messages and decisions of a record before they are compared with the decision log."""

    item: Item[BuildRequested]
    written: Written
    parts: Sequence[Part]
