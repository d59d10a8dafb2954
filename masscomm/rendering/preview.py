"""Renders a message before it is sent, and checks templates when they are saved."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from masscomm.domain.channels import CHANNELS
from masscomm.domain.digests import LISTED, contents_of
from masscomm.domain.limits import RECORD_STEPS
from masscomm.domain.records import ContentFields
from masscomm.domain.users import Template, User
from masscomm.rendering.compiler import MissingVariable, OutOfSteps, RenderError, Steps
from masscomm.rendering.message_writer import MessageWriter
from masscomm.rendering.templates import context_of, fields_of
from masscomm.texts import CodedText, Text

# The maximum number of missing variables that a preview names. Each of them costs a rendering.
MAX_MISSING = 20
_LONGEST_REASON = 300
_DATA, _ATTRIBUTES, _DIGEST = "data.", "user.attributes.", "digest"


@dataclass(frozen=True, kw_only=True)
class Preview:
    """The message of one user on one channel."""

    channel: str
    # The template of the message; None: the message is title and body of the data, or there is none.
    template: Template | None = None
    # The texts by field name; None: there is no message.
    texts: dict[str, str] | None = None
    # The variables without a value, such as data.opponent. In the texts, their names in brackets replace them.
    missing: Sequence[str] = field(default_factory=tuple)
    # The reason why the user would not get the message.
    problem: CodedText | None = None


def preview(
    content: ContentFields, channel: str, templates: Sequence[Template], user: User, steps: Steps | None = None
) -> Preview:
    """Return the message that a user would get on a channel, with the same text.

    Args:
        content: The send.
        channel: The channel.
        templates: The templates of the send's type on the channel.
        user: The user.
        steps: The remaining steps (units of work), from which compiling and each rendering are charged.
    """
    # guard: templates.steps_of_a_preview
    steps = steps or Steps(RECORD_STEPS)
    writer = MessageWriter(content, channel, templates, [user], steps)
    template = writer.template_of(user)
    missing: list[str] = []
    # The names of missing variables of the data, in brackets.
    named: dict[str, str] = {}
    while True:
        try:
            texts = writer.texts(user, named)
        except MissingVariable as error:
            if error.path in missing or len(missing) == MAX_MISSING:
                return Preview(channel=channel, template=template, missing=missing, problem=_reason(error))
            if error.path.startswith(_DATA):
                name = error.path.removeprefix(_DATA)
                named[name] = f"[{name}]"
            elif error.path.startswith(_ATTRIBUTES):
                name = error.path.removeprefix(_ATTRIBUTES)
                user = user._replace(attributes={**user.attributes, name: f"[{name}]"})
            elif error.path.startswith(_DIGEST) and content.collected is None:
                # The message of a digest with two members that have the variables of the request.
                content = replace(content, collected=contents_of(2, [content.data] * 2, LISTED))
                writer = MessageWriter(content, channel, templates, [user], steps)
                continue
            else:  # It cannot have a value.
                return Preview(channel=channel, template=template, missing=missing, problem=_reason(error))
            missing.append(error.path)
        except RenderError as error:
            return Preview(channel=channel, template=template, missing=missing, problem=_reason(error))
        else:
            problem = Text.NO_MESSAGE.filled() if texts is None else None
            if missing:
                problem = Text.VALUES_MISSING.filled(names=", ".join(missing))
            return Preview(channel=channel, template=template, texts=texts, missing=missing, problem=problem)


def problem_of(template: Template, steps: Steps | None = None) -> CodedText | None:
    """Return the reason why no message can be rendered from a template; None if one can, with suitable values.

    Args:
        template: The template.
        steps: The remaining steps (units of work), from which compiling is charged.
    """
    if template.channel not in CHANNELS:
        return Text.CHANNEL_UNKNOWN.filled(channel=repr(template.channel), channels=", ".join(CHANNELS))
    steps = steps or Steps(RECORD_STEPS)
    user = User(user_id=1, club_id=1, first_name="Ada", last_name="Lovelace", attributes=_EveryName())
    member = _EveryName()
    context = context_of(user, 1, member, template.locale)
    context["digest"] = {"count": 2, "first": member, "list": [member, member]}
    try:
        fields = fields_of(template, steps)
    except RenderError as error:
        return _reason(error)
    for each in fields:
        try:
            each.render(context, steps)
        except RenderError as error:
            # Another value may succeed: the template may read a number, or a part of an attribute.
            if isinstance(error, OutOfSteps) or _never_exists(error) or not each.reads:
                return _reason(error)
    return None


def _never_exists(error: RenderError) -> bool:
    """Return whether an error is that of a variable which no user and no data have."""
    return isinstance(error, MissingVariable) and not error.path.startswith(_ATTRIBUTES)


def _reason(error: RenderError) -> CodedText:
    return error.text.cut(_LONGEST_REASON)


class _EveryName(dict[str, Any]):
    """A mapping that has its name as the value of each name."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str)

    def __getitem__(self, key: str) -> str:
        return key
