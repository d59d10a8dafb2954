"""Finds the content of a send that its templates do not use, and the templates that it lacks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from masscomm.domain.channels import CHANNELS, LITERAL
from masscomm.domain.limits import WARNING_STEPS
from masscomm.domain.records import ContentFields
from masscomm.domain.users import Template
from masscomm.http.problem import FieldError
from masscomm.rendering.compiler import DEFAULT_LOCALE, RenderError, Steps
from masscomm.rendering.templates import Key, TemplateCache, by_locale, choose, fields_of, literal_fields
from masscomm.texts import CodedText, Text

_MOST, _LONGEST = 20, 300


@dataclass(frozen=True)
class ContentChecks:
    """Compares the content of sends with their templates, which a cache keeps."""

    templates: TemplateCache

    def has_template(self, keys: Sequence[Key]) -> bool:
        """Return whether one of the templates exists. Raises the errors of the directory."""
        return any(self.templates.load(keys).values())

    def unused(self, content: ContentFields, keys: Sequence[Key], names: Sequence[str]) -> list[FieldError]:
        """Return the warnings of `unused_content`. Raises the errors of the directory."""
        by_channel = {key[2]: templates for key, templates in self.templates.load(keys).items()}
        return unused_content(content, by_channel, names)


def unused_content(
    content: ContentFields,
    templates: Mapping[str, Sequence[Template]],
    names: Sequence[str],
    steps: Steps | None = None,
) -> list[FieldError]:
    """Return a warning for each name in the data that no message of the send contains, and for each channel without a
    template.

    Args:
        content: The send.
        templates: Channel → the templates of the send's type.
        names: The names in the data of the send and of its recipients.
        steps: The remaining steps (units of work), from which compiling is charged.
    """
    name = content.template or content.type
    source = "template" if content.template else "type"
    steps = steps or Steps(WARNING_STEPS)
    reads: dict[str, frozenset[str]] = {}
    found: list[FieldError] = []
    for channel, several in templates.items():
        try:
            reads[channel] = _read(content, channel, several, steps)
        except RenderError as error:
            found.append(
                FieldError(
                    source,
                    Text.TEMPLATE_FAILS.filled(longest=_LONGEST, template=name, channel=channel, reason=error.text),
                )
            )
            reads[channel] = frozenset({"data"})
        if not several and literal_fields(channel, content.data) is None:
            found.append(
                FieldError(source, Text.TEMPLATE_MISSING.filled(longest=_LONGEST, template=name, channel=channel))
            )
    found += (FieldError(f"data.{each}"[:_LONGEST], message) for each, message in _unused(name, names, reads))
    return found[:_MOST]


def _read(content: ContentFields, channel: str, several: Sequence[Template], steps: Steps) -> frozenset[str]:
    """Return the variables that the messages of a channel read. Raises RenderError."""
    literal = {f"data.{name}" for name in CHANNELS[channel].literal_columns}
    if not several:
        return frozenset(literal)
    in_locale = by_locale(several)
    chosen = choose(in_locale, content.locale) if content.locale else None
    if content.locale and chosen is None:
        return frozenset(literal)
    candidates = [chosen] if chosen is not None else list(in_locale.values())
    found = {variable for template in candidates for field in fields_of(template, steps) for variable in field.reads}
    if chosen is None and choose(in_locale, DEFAULT_LOCALE) is None:
        # Users of other languages get title and body.
        found |= literal
    return frozenset(found)


def _unused(name: str, names: Sequence[str], reads: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, CodedText]]:
    """Yield each name that is not used, and the reason."""
    for each in names:
        ignoring = [channel for channel, read in reads.items() if not _uses(read, each)]
        if each in LITERAL and ignoring:
            yield each, Text.DATA_IGNORED.filled(longest=_LONGEST, channels=", ".join(ignoring), template=name)
        elif len(ignoring) == len(reads):
            yield each, Text.DATA_UNUSED.filled(longest=_LONGEST, template=name)


def _uses(read: frozenset[str], name: str) -> bool:
    return any(each in ("data", f"data.{name}") or each.startswith(f"data.{name}.") for each in read)
