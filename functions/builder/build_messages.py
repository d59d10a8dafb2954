"""Write the messages of a batch of build records, equal texts once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from functions.builder.templates import (
    DEFAULT_LOCALE,
    Field,
    RenderError,
    TemplateCache,
    choose,
    context_of,
    fields_of,
    literal_fields,
)
from masscomm import topics
from masscomm.batch import Batch, Item
from masscomm.categories import CHANNELS
from masscomm.clock import Clock
from masscomm.directory import Directory, Template, User
from masscomm.errors import DeadLetter
from masscomm.ids import derived_id
from masscomm.kafka_event import KafkaRecord
from masscomm.outcomes import DEAD_LETTERED, Told, outcome
from masscomm.preferences import Decision
from masscomm.records import BuildRequested, ContentColumn, DeliveryRequested
from masscomm.statuses import Reason, Status
from masscomm.topics import Lane
from masscomm.wire import Codec

# Under what a topic takes, with room for the record's own fields.
MAX_CONTENT_BYTES = 700_000

_UNKNOWN = Decision(Status.SUPPRESSED, Reason.UNKNOWN_USER, "directory")
_OTHER_TENANT = Decision(Status.SUPPRESSED, Reason.OTHER_TENANT, "directory")
_NO_ADDRESS = Decision(Status.SUPPRESSED, Reason.NO_ADDRESS, "directory")
_NO_TEMPLATE = Decision(Status.FAILED, Reason.NO_TEMPLATE, "template")
_TOO_LARGE = Decision(Status.FAILED, Reason.TOO_LARGE, "template")


@dataclass(frozen=True, slots=True)
class Message:
    """One recipient's message; texts: the value of each field, in the order of its names."""

    position: int
    user_id: int
    address: str
    names: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass
class Written:
    """What became of one build record's recipients."""

    messages: list[Message] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class BuildMessages:
    """The use case; one for each function environment."""

    directory: Directory
    templates: TemplateCache
    clock: Clock
    lane: Lane

    def decode(self, record: KafkaRecord, codec: Codec) -> BuildRequested:
        """A record of build. Errors: DeadLetter, Retry."""
        build = BuildRequested.from_avro(codec.decode("BuildRequested", record.value))
        if build.channel not in CHANNELS or len(build.positions) != len(build.user_ids):
            raise DeadLetter("invalid", f"no build record: channel {build.channel!r}, {len(build.positions)} positions")
        return build

    def handle(self, batch: Batch[BuildRequested]) -> None:
        items = batch.active()
        if not items:
            return
        users = self.directory.users(list(dict.fromkeys(user for item in items for user in item.value.user_ids)))
        templates = self.templates.load([_key(item.value) for item in items])
        for item in items:
            batch.attempt(item, lambda item=item: self._build(batch, item, users, templates[_key(item.value)]))  # type: ignore[misc]

    def dead_lettered(self, batch: Batch[BuildRequested], item: Item[BuildRequested], why: DeadLetter) -> None:  # noqa: ARG002
        """Its recipients failed: a dead letter is not a way to vanish."""
        build = item.value
        told = [Told(*who, DEAD_LETTERED) for who in zip(build.positions, build.user_ids, strict=True)]
        self._tell(batch, item, told)

    def _build(
        self,
        batch: Batch[BuildRequested],
        item: Item[BuildRequested],
        users: dict[int, User],
        templates: list[Template],
    ) -> None:
        build = item.value
        if any(user_id not in users for user_id in build.user_ids):
            users = users | self._again(batch, build, lambda: self.directory.users(build.user_ids))
        if not templates and literal_fields(build.channel, build.data) is None:
            templates = self._again(batch, build, lambda: self._templates_now(build))
        written = _write(build, users, templates)
        for part in _parts(build, written.messages):
            self._pass_on(batch, item, part, written.told)
        self._tell(batch, item, sorted(written.told, key=lambda told: told.position))

    def _again[V](self, batch: Batch[BuildRequested], build: BuildRequested, look_up: Callable[[], V]) -> V:
        """Look up anew what was absent, once the directory is past the moment of asking. Errors: Retry."""
        batch.confirm(self.directory, min(build.timestamp, self.clock.now_ms()))
        return look_up()

    def _templates_now(self, build: BuildRequested) -> list[Template]:
        self.templates.forget(_key(build))
        return self.templates.load([_key(build)])[_key(build)]

    def _pass_on(
        self, batch: Batch[BuildRequested], item: Item[BuildRequested], part: "Part", told: list[Told]
    ) -> None:
        if not part.messages:
            return
        if part.size > MAX_CONTENT_BYTES:  # a part of one: it cannot be cut any further
            told.extend(Told(message.position, message.user_id, _TOO_LARGE) for message in part.messages)
            return
        build = item.value
        record = DeliveryRequested(
            record_id=derived_id(build.record_id, "delivery", build.channel, part.start, part.end),
            parent_id=build.record_id,
            send_id=build.send_id,
            chunk_index=build.chunk_index,
            range_start=part.start,
            range_end=part.end,
            club_id=build.club_id,
            type=build.type,
            timestamp=build.timestamp,
            built_at=self.clock.now_ms(),
            channel=build.channel,
            expires_at=build.expires_at,
            collapse_key=build.collapse_key,
            reference=build.reference,
            positions=[message.position for message in part.messages],
            user_ids=[message.user_id for message in part.messages],
            addresses=[message.address for message in part.messages] if build.channel == "email" else [],
            content=_columns(part.messages),
        )
        batch.produce(item, topics.in_lane(topics.DELIVERY, self.lane), record.record_id, record)

    def _tell(self, batch: Batch[BuildRequested], item: Item[BuildRequested], told: Sequence[Told]) -> None:
        if told:
            build = item.value
            record = outcome(
                build,
                told,
                channel=build.channel,
                step="build",
                start=build.range_start,
                end=build.range_end,
                now_ms=self.clock.now_ms(),
                directory=self.directory.position(),
            )
            batch.produce(item, topics.OUTCOME, record.record_id, record)


def _key(build: BuildRequested) -> tuple[int, str, str]:
    return build.club_id, build.template or build.type, build.channel


def _write(build: BuildRequested, users: Mapping[int, User], templates: Sequence[Template]) -> Written:
    """Each recipient's message, or why there is none."""
    written = Written()
    writer = _Writer(build, templates)
    for position, user_id in zip(build.positions, build.user_ids, strict=True):
        user = users.get(user_id)
        reached = _reach(build, user)
        if isinstance(reached, Decision):
            written.told.append(Told(position, user_id, reached))
            continue
        try:
            texts = writer.texts(reached)
        except RenderError as error:
            failed = Decision(Status.FAILED, Reason.TEMPLATE_ERROR, "template", str(error)[:200])
            written.told.append(Told(position, user_id, failed))
            continue
        if texts is None:
            written.told.append(Told(position, user_id, _NO_TEMPLATE))
        else:
            written.messages.append(
                Message(position, user_id, reached.email or "", tuple(texts), tuple(texts.values()))
            )
    return written


class _Writer:
    """Writes one record's messages; what is nobody's own is rendered once a locale."""

    def __init__(self, build: BuildRequested, templates: Sequence[Template]) -> None:
        self._build = build
        self._templates = templates
        self._fields: dict[str, list[Field] | RenderError | None] = {}
        self._shared: dict[tuple[str, str], str | RenderError] = {}

    def texts(self, user: User) -> dict[str, str] | None:
        """The message's fields by name; None where no template applies. Errors: RenderError."""
        locale = self._build.locale or user.locale or DEFAULT_LOCALE
        if locale not in self._fields:
            self._fields[locale] = self._fields_in(locale)
        fields = self._fields[locale]
        if isinstance(fields, RenderError):
            raise fields
        if fields is None:
            return None
        context = context_of(user, self._build.club_id, self._build.data)
        return {field.name: self._text(field, locale, context) for field in fields}

    def _fields_in(self, locale: str) -> list[Field] | RenderError | None:
        template = choose(self._templates, locale)
        if template is None:
            return literal_fields(self._build.channel, self._build.data)
        try:
            return fields_of(template)
        except RenderError as error:
            return error

    def _text(self, field: Field, locale: str, context: Mapping[str, Any]) -> str:
        if field.personal:
            return field.render(context)
        key = (locale, field.name)
        if key not in self._shared:
            self._shared[key] = _rendered(field, context)
        text = self._shared[key]
        if isinstance(text, RenderError):
            raise text
        return text


def _rendered(field: Field, context: Mapping[str, Any]) -> str | RenderError:
    """What nobody's own text comes to: an error, too, is found once and not once a recipient."""
    try:
        return field.render(context)
    except RenderError as error:
        return error


def _reach(build: BuildRequested, user: User | None) -> User | Decision:
    if user is None:
        return _UNKNOWN
    if user.club_id != build.club_id:
        return _OTHER_TENANT
    return _NO_ADDRESS if build.channel == "email" and not user.email else user


@dataclass(frozen=True, kw_only=True)
class Part:
    """Messages of positions [start, end) that fit in one record; size: of their texts, bytes."""

    start: int
    end: int
    messages: Sequence[Message]
    size: int


def _parts(build: BuildRequested, messages: Sequence[Message]) -> list[Part]:
    """The record's range, halved by position until each half's content fits."""
    pending = [(build.range_start, build.range_end, messages)]
    parts = []
    while pending:
        start, end, inside = pending.pop(0)
        size = _size(inside)
        if size <= MAX_CONTENT_BYTES or end - start <= 1:
            parts.append(Part(start=start, end=end, messages=inside, size=size))
            continue
        middle = (start + end) // 2
        pending.insert(0, (middle, end, [message for message in inside if message.position >= middle]))
        pending.insert(0, (start, middle, [message for message in inside if message.position < middle]))
    return parts


def _size(messages: Sequence[Message]) -> int:
    """Bytes of the distinct values of each column, which is how they travel, and of what is one a recipient."""
    texts = {pair for message in messages for pair in zip(message.names, message.texts, strict=True)}
    return sum(len(text.encode()) for _, text in texts) + sum(
        len(message.address.encode()) + 40 for message in messages
    )


def _columns(messages: Sequence[Message]) -> list[ContentColumn]:
    """One column a field; a field that one of the messages lacks is empty there."""
    names = list(dict.fromkeys(name for message in messages for name in message.names))
    columns = []
    for name in names:
        texts = [dict(zip(message.names, message.texts, strict=True)).get(name, "") for message in messages]
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        index = [places[text] for text in texts] if len(places) > 1 else []
        columns.append(ContentColumn(field=name, values=list(places), index=index))
    return columns
