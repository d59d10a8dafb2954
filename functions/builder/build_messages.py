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
from masscomm.directory.confirmation import Confirmation
from masscomm.directory.port import Directory
from masscomm.domain.channels import CHANNELS
from masscomm.domain.outcomes import CANCELLED, DEAD_LETTERED, RecipientOutcome
from masscomm.domain.preferences import UNKNOWN, Decision, is_member
from masscomm.domain.records import BuildRequested, ContentColumn, DeliveryFields, DeliveryRequested, Withdrawn
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import Template, User
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.rendering.compiler import RenderError
from masscomm.rendering.message_writer import MessageWriter
from masscomm.rendering.templates import TemplateCache, literal_fields
from masscomm.stores.decision_log import DecisionLog, Decisions, record_decisions
from masscomm.stores.send_controls import SendControl, SendControls, SendKey, send_of

# The size limit of the texts in a delivery record, below the maximum record size of the topics, with room for the
# record's other fields.
MAX_CONTENT_BYTES = 700_000

# The size limit of texts for a record whose division into parts is already in the decision log. The texts may have
# grown since then, but a different division would produce different records, in addition to those already produced.
_MAX_GROWN_BYTES = 950_000

# The number of threads for concurrent look-ups and writes: recording a whole batch takes the time of one or two writes.
_THREADS = 10

_NO_ADDRESS = Decision(Status.SUPPRESSED, Reason.NO_ADDRESS, "directory")
_NO_TEMPLATE = Decision(Status.FAILED, Reason.NO_TEMPLATE, "template")
_TOO_LARGE = Decision(Status.FAILED, Reason.TOO_LARGE, "template")


class Message(NamedTuple):
    """The message of one recipient."""

    position: int
    user_id: int
    address: str
    # The names of the message's fields; the texts are in the same order.
    names: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass
class Written:
    """The messages and decisions for the recipients of one build record."""

    messages: list[Message] = field(default_factory=list)
    # The decisions for recipients without a message, by their position in the send's list of users.
    decisions: dict[int, Decision] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BuildMessages:
    """The use case of the builder function. Each function environment has one instance."""

    directory: Directory
    templates: TemplateCache
    clock: Clock
    decision_log: DecisionLog
    controls: SendControls
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
            # A cancelled notification of a single recipient continues: the decision log has no entry for it, so only
            # the delivery function can end it.
            if controls[send_of(item.value)].is_cancelled(now_ms) and len(item.value.positions) > 1:
                written = Written(decisions=dict.fromkeys(item.value.positions, CANCELLED))
                drafts.append(Draft(item=item, written=written, parts=[]))
                continue
            batch.attempt(item, partial(self._draft, item, confirmation, users, templates, drafts))
        for draft, decided in [(draft, self._begin_recording(draft)) for draft in drafts]:
            batch.attempt(draft.item, partial(self._emit, batch, draft, decided))

    def _look_up(
        self, builds: Sequence[BuildRequested]
    ) -> tuple[dict[int, User], dict[tuple[int, str, str], list[Template]], Mapping[SendKey, SendControl]]:
        """Look up users, templates and controls of sends in parallel: round trips add to one-time-password latency.

        Raises Retry.
        """
        controls = self.pool.submit(self.controls.read, {send_of(build) for build in builds})
        templates = self.pool.submit(self.templates.load, [_key(build) for build in builds])
        users = self.directory.users(list(dict.fromkeys(user for build in builds for user in build.user_ids)))
        return users, templates.result(), controls.result()

    def dead_lettered(self, batch: Batch[BuildRequested], item: Item[BuildRequested], why: DeadLetter) -> None:  # noqa: ARG002
        """Produce outcome records with the status failed for all recipients of a dead-lettered record."""
        self._emit_outcomes(batch, item, dict.fromkeys(item.value.positions, DEAD_LETTERED))

    def _draft(
        self,
        item: Item[BuildRequested],
        confirmation: Confirmation,
        users: dict[int, User],
        templates: Mapping[tuple[int, str, str], list[Template]],
        drafts: "list[Draft]",
    ) -> None:
        """Append the draft (messages and decisions) of one record to `drafts`. Raises Retry."""
        build, found = item.value, templates[_key(item.value)]
        if not all(is_member(users.get(user_id), build.club_id) for user_id in build.user_ids):
            users = users | self._look_up_again(confirmation, build, lambda: self.directory.users(build.user_ids))
        if not found and literal_fields(build.channel, build.data) is None:
            found = self._look_up_again(confirmation, build, lambda: self._templates_now(build))
        written = _write(build, users, found)
        parts = _fitting(written.messages, [(build.range_start, build.range_end)], MAX_CONTENT_BYTES)
        written.decisions |= _too_large(parts, MAX_CONTENT_BYTES)
        fitting = [part for part in parts if part.size <= MAX_CONTENT_BYTES]
        drafts.append(Draft(item=item, written=written, parts=fitting))

    def _begin_recording(self, draft: "Draft") -> Callable[[], Decisions]:
        """Return a function that waits for the recorded decisions. The decision about a single recipient needs no
        write, so it needs no thread either.
        """
        record = partial(self._record_decisions, draft)
        return record if len(draft.item.value.positions) == 1 else self.pool.submit(record).result

    def _record_decisions(self, draft: "Draft") -> Decisions:
        build = draft.item.value
        decisions = Decisions(
            positions=build.positions,
            user_ids=build.user_ids,
            by_channel={build.channel: draft.written.decisions},
            parts=tuple((part.start, part.end) for part in draft.parts),
        )
        return record_decisions(self.decision_log, build.record_id, decisions)

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
        messages = [
            _blank(position, user_id) if position in withdrawn else written[position]
            for position, user_id in zip(build.positions, build.user_ids, strict=True)
            if position not in decisions
        ]
        for part in _fitting(messages, decided.parts, _MAX_GROWN_BYTES):
            record = self._record(build, part, withdrawn | _too_large([part], _MAX_GROWN_BYTES))
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

    def _record(self, build: BuildRequested, part: "Part", withdrawn: Mapping[int, Decision]) -> DeliveryRequested:
        return build.derive(
            DeliveryRequested,
            "delivery",
            build.channel,
            (part.start, part.end),
            [message.position for message in part.messages],
            [message.user_id for message in part.messages],
            DeliveryFields(
                built_at=self.clock.now_ms(),
                addresses=[] if CHANNELS[build.channel].to_devices else [message.address for message in part.messages],
                content=_columns(part.messages),
                withdrawn=[
                    _withdrawn(message.position, withdrawn[message.position])
                    for message in part.messages
                    if message.position in withdrawn
                ],
            ),
        )

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


def _key(build: BuildRequested) -> tuple[int, str, str]:
    return build.club_id, build.template or build.type, build.channel


def _write(build: BuildRequested, users: Mapping[int, User], templates: Sequence[Template]) -> Written:
    """Return the message of each recipient, or the decision for a recipient without one."""
    written = Written()
    reached: list[tuple[int, User]] = []
    for position, user_id in zip(build.positions, build.user_ids, strict=True):
        found = _reach(build, users.get(user_id))
        if isinstance(found, Decision):
            written.decisions[position] = found
        else:
            reached.append((position, found))
    channel, writer = (
        CHANNELS[build.channel],
        MessageWriter(build, build.channel, templates, [user for _, user in reached]),
    )
    for position, user in reached:
        try:
            texts = writer.texts(user, build.data_of(position))
        except RenderError as error:
            written.decisions[position] = Decision(Status.FAILED, Reason.TEMPLATE_ERROR, "template", str(error)[:200])
            continue
        if texts is None:
            written.decisions[position] = _NO_TEMPLATE
        else:
            written.messages.append(
                Message(position, user.user_id, channel.address_of(user), tuple(texts), tuple(texts.values()))
            )
    return written


def _reach(build: BuildRequested, user: User | None) -> User | Decision:
    if user is None or not is_member(user, build.club_id):
        return UNKNOWN
    return user if CHANNELS[build.channel].reaches(user) else _NO_ADDRESS


class Part(NamedTuple):
    """The messages of recipients at positions [start, end)."""

    start: int
    end: int
    messages: Sequence[Message]
    # The size of the messages in bytes.
    size: int


class Draft(NamedTuple):
    """The messages and decisions of a record before they are compared with the decision log."""

    item: Item[BuildRequested]
    written: Written
    parts: Sequence[Part]


def _fitting(messages: Sequence[Message], ranges: Sequence[tuple[int, int]], max_bytes: int) -> list[Part]:
    """Halve each range of positions until its messages fit into a record, or until it has a single message.

    Returns:
        The parts in order. Ranges without messages have no part.
    """
    pending = [(start, end, _inside(messages, start, end)) for start, end in ranges]
    parts = []
    while pending:
        start, end, inside = pending.pop(0)
        if not inside:
            continue
        size = _size(inside)
        if size <= max_bytes or end - start <= 1:
            parts.append(Part(start=start, end=end, messages=inside, size=size))
            continue
        middle = (start + end) // 2
        pending.insert(0, (middle, end, _inside(inside, middle, end)))
        pending.insert(0, (start, middle, _inside(inside, start, middle)))
    return parts


def _inside(messages: Sequence[Message], start: int, end: int) -> list[Message]:
    return [message for message in messages if start <= message.position < end]


def _too_large(parts: Sequence[Part], max_bytes: int) -> dict[int, Decision]:
    """Return decisions for the recipients whose message alone is too large for a record."""
    return {message.position: _TOO_LARGE for part in parts if part.size > max_bytes for message in part.messages}


def _blank(position: int, user_id: int) -> Message:
    return Message(position, user_id, "", (), ())


def _withdrawn(position: int, why: Decision) -> Withdrawn:
    if why.status is None:
        raise ValueError("an allowed recipient cannot be withdrawn")
    # An earlier version of the delivery function does not know the reason of a cancellation, and would dead-letter the
    # record. So the builder omits the reason, and the delivery function adds it.
    reason = None if why.status is Status.CANCELLED else why.reason
    return Withdrawn(position=position, status=why.status, reason=reason, layer=why.layer, rule=why.rule)


def _size(messages: Sequence[Message]) -> int:
    """Return the size in bytes of the columns' distinct values as they are produced, plus each recipient's address
    and 40 bytes.
    """
    texts = {pair for message in messages for pair in zip(message.names, message.texts, strict=True)}
    return sum(len(text.encode()) for _, text in texts) + sum(
        len(message.address.encode()) + 40 for message in messages
    )


def _columns(messages: Sequence[Message]) -> list[ContentColumn]:
    """Return one column of texts for each field. If a message does not have the field, its text in the column is
    empty.
    """
    names = list(dict.fromkeys(name for message in messages for name in message.names))
    columns = []
    for name in names:
        texts = [dict(zip(message.names, message.texts, strict=True)).get(name, "") for message in messages]
        value_index = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        indices = [value_index[text] for text in texts] if len(value_index) > 1 else []
        columns.append(ContentColumn(field=name, values=list(value_index), index=indices))
    return columns
