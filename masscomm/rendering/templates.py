"""Looks up, chooses and compiles templates. Each template is compiled once, and rendered for a channel.

Tenants write the templates. A missing variable is an error, values are escaped for the channel, and the work of
compiling and rendering is limited (`masscomm/rendering/compiler.py`).
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Protocol

from masscomm.clock import Clock
from masscomm.domain.channels import CHANNELS, LITERAL, MessageField
from masscomm.domain.deep_links import is_deep_link
from masscomm.domain.digests import contents_in
from masscomm.domain.locales import Locale, nearest, read_locale
from masscomm.domain.time_limits import TEMPLATES_CACHED_S
from masscomm.domain.users import Template, User
from masscomm.rendering.compiler import DEFAULT_LOCALE, LOCALE, OutOfSteps, RenderError, Steps, compile_source, render
from masscomm.rendering.letters import has_dotted_capital
from masscomm.texts import Text

# The maximum size of a subject, title or link in bytes. Phones and mail programs show less.
MAX_LINE_BYTES = 2_000
_LONGEST_NAMED_LINK = 100
# Control characters but tab and line breaks: mail servers refuse a message with NUL (RFC 5322, 3.5), and data of a send
# may have any of them.
_CONTROLS = bytes(each for each in (*range(0x20), 0x7F) if chr(each) not in "\t\n\r")
_SPACES_FOR_CONTROLS = bytes.maketrans(_CONTROLS, b" " * len(_CONTROLS))
# The bytes of a text that are brought into the form of a channel in one step, and of one that must be a line.
_FITTED, _FITTED_LINE = 200, 40
# The maximum size in bytes of each of the two caches (looked-up and compiled templates): a small part of an
# environment's memory.
MAX_CACHE_BYTES = 16_000_000
# The memory in bytes that a compiled template needs in addition to its texts: closures and syntax, measured with
# tracemalloc.
_BYTES_A_TEMPLATE = 3_000
_BYTES_A_TOKEN = 600
# The memory in bytes that a key of the cache of looked-up templates needs.
_BYTES_A_KEY = 500

Key = tuple[int, str, str]  # The key of a group of templates: club, type (category), channel.


@dataclass(frozen=True, kw_only=True)
class Field:
    name: str
    # The variables that the field reads, such as user.first_name; `data` alone: any of the data.
    reads: frozenset[str]
    # Whether the text depends on the user; if so, it is rendered for each recipient.
    personal: bool
    # Whether the text depends on the data; if so, it is rendered for each recipient with variables of its own.
    reads_data: bool
    # Whether the text depends on the locale; if so, it is rendered for each locale.
    localised: bool
    # The number of tokens of the template.
    tokens: int = 0
    render: Callable[[Mapping[str, Any], Steps], str]


class SizedCache[K, V]:
    """A cache that evicts the least recently used entries when it exceeds max_bytes. A larger entry is not stored."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0

    def get(self, key: K) -> V | None:
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: K, value: V, size: int) -> None:
        self.remove(key)
        self._entries[key] = value, size
        self.size += size
        while self.size > self._max_bytes:  # guard: templates.cache_bytes
            self.remove(next(iter(self._entries)))

    def remove(self, key: K) -> None:
        if key in self._entries:
            self.size -= self._entries.pop(key)[1]


class TemplateSource(Protocol):
    """Looks templates up: a directory (masscomm.directory.port)."""

    def templates(self, keys: Sequence[Key]) -> Mapping[Key, list[Template]]: ...


class TemplateCache:
    """A cache of looked-up templates, by club, category and channel. Entries expire after five seconds."""

    def __init__(self, directory: TemplateSource, clock: Clock, *, keep_empty: bool = False) -> None:
        self._directory = directory
        self._clock = clock
        # Whether empty results are cached. The builder does not cache them, so that the first template of a key applies
        # immediately.
        self._keep_empty = keep_empty
        self._known: SizedCache[Key, tuple[float, list[Template]]] = SizedCache(MAX_CACHE_BYTES)

    def load(self, keys: Sequence[Key]) -> dict[Key, list[Template]]:
        """Return the templates of each key, with one look-up for missing and expired keys. Raises Retry."""
        now = self._clock.monotonic()
        found = {}
        for key in dict.fromkeys(keys):
            entry = self._known.get(key)
            if entry is not None and now - entry[0] < TEMPLATES_CACHED_S:
                found[key] = entry[1]
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        if missing:
            for key, templates in self._directory.templates(missing).items():
                found[key] = templates
                if templates or self._keep_empty:
                    size = _BYTES_A_KEY + sum(_text_bytes(template) for template in templates)
                    self._known.put(key, (now, templates), size)
        return found

    def forget(self, key: Key) -> None:
        self._known.remove(key)


def by_locale(templates: Sequence[Template]) -> dict[Locale, Template]:
    """Return one template for each locale. A club's own template takes precedence over the shared one."""
    ordered = sorted(templates, key=lambda template: (template.club_id is None, template.template_id), reverse=True)
    return {read_locale(template.locale): template for template in ordered}


def choose(templates: Mapping[Locale, Template], locale: str) -> Template | None:
    """Return the template of the nearest locale, else that of the default locale; None if neither exists."""
    found = nearest(read_locale(locale), templates) or nearest(read_locale(DEFAULT_LOCALE), templates)
    return None if found is None else templates[found]


def format_locale(template: Template, wanted: str) -> str:
    """Return the locale of the dates, numbers and plurals in a message: the wanted one, if its language and script are
    the template's; else the template's, because the formats of another language do not fit its words.
    """
    return wanted if read_locale(wanted).is_readable_for(read_locale(template.locale)) else template.locale


def fields_of(template: Template, steps: Steps) -> list[Field]:
    """Return the template's compiled fields for its channel.

    Compiled fields are cached by the template's content, so that a new version of a template has a new entry. The work
    of compiling is charged at each call, so that the result does not depend on the cache.

    Raises:
        RenderError: The template does not compile.
    """
    dotted = has_dotted_capital(template.locale)
    key = (template.channel, dotted, template.title, template.body, template.html, template.url)
    kept = _COMPILED.get(key)
    if kept is not None:
        steps.spend(kept.steps)
    else:
        before = steps.remaining
        try:
            compiled: list[Field] | RenderError = _compiled(template, steps, dotted)
        except OutOfSteps:
            # The result is not cached: the template may compile when its limit of steps is larger.
            raise
        except RenderError as error:
            compiled = RenderError(error.text)
        kept = _Compiled(fields=compiled, steps=before - steps.remaining)
        tokens = 0 if isinstance(compiled, RenderError) else sum(field.tokens for field in compiled)
        _COMPILED.put(key, kept, _text_bytes(template) + _BYTES_A_TEMPLATE + tokens * _BYTES_A_TOKEN)
    if isinstance(kept.fields, RenderError):
        raise kept.fields
    return kept.fields


def literal_fields(channel: str, data: Mapping[str, str]) -> list[Field] | None:
    """Return the fields of a send that has `title` and `body` in its data, and possibly `url`, as they are; None for a
    send with a template.
    """
    if any(name not in data for name in LITERAL):
        return None
    found = CHANNELS[channel]
    return [_literal(each) for each in found.fields if each.column in found.literal_columns & data.keys()]


def _literal(field: MessageField) -> Field:
    def text(context: Mapping[str, Any], steps: Steps) -> str:
        try:
            return _fitting(field, str(context["data"][field.column]), steps)
        except RenderError as error:
            raise _in_field(field.name, error) from error

    return Field(
        name=field.name,
        reads=frozenset([f"data.{field.column}"]),
        personal=False,
        reads_data=True,
        localised=False,
        render=text,
    )


def context_of(
    user: User, club_id: int, data: Mapping[str, str], locale: str, collected: str | None = None
) -> dict[str, Any]:
    """Return the values of a template.

    Args:
        user: The recipient.
        club_id: The club (tenant).
        data: The variables.
        locale: The locale of dates, numbers and plurals.
        collected: The contents of the digest whose message it is, as in its records. Raises DigestError.
    """
    return ({} if collected is None else {"digest": contents_in(collected)}) | {
        LOCALE: locale,
        "user": {
            "first_name": user.first_name,
            "last_name": user.last_name,
            "locale": user.locale,
            "attributes": user.attributes,
        },
        "data": data,
        "club_id": club_id,
    }


@dataclass(frozen=True, kw_only=True)
class _Compiled:
    # The compiled fields, or the error of a template that does not compile.
    fields: list[Field] | RenderError
    # The steps (units of work) that compiling took.
    steps: float


_COMPILED: SizedCache[tuple[str | bool | None, ...], _Compiled] = SizedCache(MAX_CACHE_BYTES)


def _compiled(template: Template, steps: Steps, dotted: bool) -> list[Field]:
    sources = {"title": template.title, "body": template.body, "html": template.html, "url": template.url}
    return [
        _field(field, source, steps, dotted)
        for field in CHANNELS[template.channel].fields
        if (source := sources[field.column]) is not None
    ]


def _field(field: MessageField, source: str, steps: Steps, dotted: bool) -> Field:
    try:
        write, reads, localised, tokens = compile_source(
            source,
            escaped=field.escaped,
            steps=steps,
            dotted=dotted,  # guard: templates.dotted_capital
        )
    except RenderError as error:
        raise _in_field(field.name, error) from error

    def render_field(context: Mapping[str, Any], steps: Steps) -> str:
        try:
            return _fitting(field, render(write, context, steps), steps)
        except RenderError as error:
            raise _in_field(field.name, error) from error

    owners = {variable.partition(".")[0] for variable in reads}
    return Field(
        name=field.name,
        reads=reads,
        personal="user" in owners,
        reads_data="data" in owners,
        localised=localised,
        tokens=tokens,
        render=render_field,
    )


def _in_field(name: str, error: RenderError) -> RenderError:
    described = copy(error)
    described.text = Text.FIELD_INVALID.filled(field=name, reason=error.text)
    described.args = (described.text,)
    return described


def _text_bytes(template: Template) -> int:
    """Return the memory in bytes that the template's texts use."""
    return sum(getsizeof(text) for text in (template.title, template.body, template.html or "", template.url or ""))


def _fitting(field: MessageField, text: str, steps: Steps) -> str:
    """Return the text of a field in the form of its channel. Raises RenderError."""
    # Half of a surrogate pair is refused elsewhere.
    encoded = text.encode(errors="surrogatepass")
    # guard: templates.steps_of_fitting
    steps.spend(1 + len(encoded) / (_FITTED_LINE if field.one_line else _FITTED))
    text = _without_controls(encoded)  # guard: templates.control_characters
    text = _one_line(text) if field.one_line else text
    if field.is_link and text and not is_deep_link(text):
        raise RenderError(Text.RENDER_LINK.filled(link=repr(text[:_LONGEST_NAMED_LINK])))
    return text


def _without_controls(encoded: bytes) -> str:
    """Return the text with a space in place of each control character. As bytes, it takes the same time for a text of
    them.
    """
    return encoded.translate(_SPACES_FOR_CONTROLS).decode(errors="surrogatepass")


def _one_line(text: str) -> str:
    """Return the text without line breaks, which would begin another header in a subject. Raises RenderError if it
    is too long.
    """
    line = " ".join(text.split())
    if len(line.encode(errors="replace")) > MAX_LINE_BYTES:
        raise RenderError(Text.RENDER_LINE.filled(maximum=MAX_LINE_BYTES))
    return line
