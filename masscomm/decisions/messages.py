"""Writes the messages of a build record, and divides them into delivery records.

All functions are pure: none reads a clock, a store or a topic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from masscomm.domain.channels import CHANNELS
from masscomm.domain.preferences import UNKNOWN, Decision, is_member
from masscomm.domain.push_options import is_silent
from masscomm.domain.records import BuildRequested, ContentColumn, DeliveryFields, DeliveryRequested, Withdrawn
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import Template, User
from masscomm.rendering.compiler import RenderError
from masscomm.rendering.message_writer import MessageWriter

# The size limit of the texts in a delivery record, below the maximum record size of the topics, with room for the
# record's other fields.
MAX_CONTENT_BYTES = 700_000

# The size limit of texts for a record whose division into parts is already in the decision log. The texts may have
# grown since then, but a different division would produce different records, in addition to those already produced.
MAX_GROWN_BYTES = 950_000

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


class Part(NamedTuple):
    """The messages of recipients at positions [start, end)."""

    start: int
    end: int
    messages: Sequence[Message]
    # The size of the messages in bytes.
    size: int


def write(
    build: BuildRequested, users: Mapping[int, User], templates: Sequence[Template]
) -> tuple[Written, Sequence[Part]]:
    """Return the message of each recipient, or the decision for a recipient without one, and the parts of the messages
    that fit into a delivery record each.
    """
    written = _written(build, users, templates)
    parts = fitting(written.messages, [(build.range_start, build.range_end)], MAX_CONTENT_BYTES)
    written.decisions |= too_large(parts, MAX_CONTENT_BYTES)
    return written, [part for part in parts if part.size <= MAX_CONTENT_BYTES]


def _written(build: BuildRequested, users: Mapping[int, User], templates: Sequence[Template]) -> Written:
    """Return the message of each recipient, or the decision for a recipient without one."""
    written = Written()
    reached: list[tuple[int, User]] = []
    for position, user_id in zip(build.positions, build.user_ids, strict=True):
        found = _reach(build, users.get(user_id))
        if isinstance(found, Decision):
            written.decisions[position] = found
        else:
            reached.append((position, found))
    if is_silent(build.push, build.channel):
        # Its data is that of the send, the same for every recipient: it has no texts, and needs no template.
        written.messages = [blank(position, user.user_id) for position, user in reached]
        return written
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


def fitting(messages: Sequence[Message], ranges: Sequence[tuple[int, int]], max_bytes: int) -> list[Part]:
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


def too_large(parts: Sequence[Part], max_bytes: int) -> dict[int, Decision]:
    """Return decisions for the recipients whose message alone is too large for a record."""
    return {message.position: _TOO_LARGE for part in parts if part.size > max_bytes for message in part.messages}


def blank(position: int, user_id: int) -> Message:
    return Message(position, user_id, "", (), ())


def delivery_record(
    build: BuildRequested, part: Part, withdrawn: Mapping[int, Decision], *, now_ms: int
) -> DeliveryRequested:
    """Return the delivery record of a part. `withdrawn` has the decisions for recipients whose message must not be sent
    any more, by position.
    """
    return build.derive(
        DeliveryRequested,
        "delivery",
        build.channel,
        (part.start, part.end),
        [message.position for message in part.messages],
        [message.user_id for message in part.messages],
        DeliveryFields(
            built_at=now_ms,
            addresses=[] if CHANNELS[build.channel].to_devices else [message.address for message in part.messages],
            content=_columns(part.messages),
            withdrawn=[
                _withdrawn(message.position, withdrawn[message.position])
                for message in part.messages
                if message.position in withdrawn
            ],
        ),
    )


def _withdrawn(position: int, why: Decision) -> Withdrawn:
    if why.status is None:
        raise ValueError("an allowed recipient cannot be withdrawn")
    return Withdrawn(position=position, status=why.status, reason=why.reason, layer=why.layer, rule=why.rule)


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
