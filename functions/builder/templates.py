"""Templates: which one applies, compiled once, rendered for a channel.

Templates are written by tenants: a missing variable is an error, their text is escaped for its channel, and both
compiling and rendering are bounded in steps (`functions/builder/rendering.py`).
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import Any

from functions.builder.rendering import OutOfSteps, RenderError, Steps, compile_source, render
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.users import Template, User

DEFAULT_LOCALE = "en"
_KEEP_SECONDS = 5.0
# A subject or a title. Python's e-mail package folds a header in quadratic time.
MAX_LINE_BYTES = 2_000
# Of the templates as they were looked up, and of those compiled: each is a small part of an environment's memory.
MAX_CACHE_BYTES = 16_000_000
# Beyond its texts, measured with tracemalloc: closures and syntax that a compiled template keeps.
_BYTES_A_TEMPLATE = 3_000
_BYTES_A_STEP = 60

Key = tuple[int, str, str]  # club, type, channel


@dataclass(frozen=True, kw_only=True)
class Field:
    """One compiled field; personal: it reads the user, so that each recipient has a text of their own."""

    name: str
    personal: bool
    render: Callable[[Mapping[str, Any], Steps], str]


class SizedCache[K, V]:
    """The entries used last whose sizes are max_bytes at most in all; an entry that is larger alone is not kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0

    def get(self, key: K) -> V | None:
        """The entry, which is now the one used last."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep an entry, at the expense of those that have not been used for longest. size: bytes."""
        self.remove(key)
        self._entries[key] = value, size
        self.size += size
        while self.size > self._max_bytes:  # guard: templates.cache_bytes
            self.remove(next(iter(self._entries)))

    def remove(self, key: K) -> None:
        """Forget an entry, if it is there."""
        if key in self._entries:
            self.size -= self._entries.pop(key)[1]


class TemplateCache:
    """The templates of the clubs and categories in use, looked up again when they are some seconds old."""

    def __init__(self, directory: Directory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._known: SizedCache[Key, tuple[float, list[Template]]] = SizedCache(MAX_CACHE_BYTES)

    def load(self, keys: Sequence[Key]) -> dict[Key, list[Template]]:
        """The templates of each key, one look-up for those that are not known or too old. Errors: Retry."""
        now = self._clock.monotonic()
        found = {}
        for key in dict.fromkeys(keys):
            entry = self._known.get(key)
            if entry is not None and now - entry[0] < _KEEP_SECONDS:
                found[key] = entry[1]
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        if missing:
            for key, templates in self._directory.templates(missing).items():
                found[key] = templates
                if templates:  # an empty answer is not kept: a first template is used at once
                    self._known.put(key, (now, templates), sum(_text_bytes(template) for template in templates))
        return found

    def forget(self, key: Key) -> None:
        """Look this key up again next time."""
        self._known.remove(key)


def by_locale(templates: Sequence[Template]) -> dict[str, Template]:
    """The template of each normalised locale; a club's own wins over the one for every club."""
    ordered = sorted(templates, key=lambda template: (template.club_id is None, template.template_id), reverse=True)
    return {_normal(template.locale): template for template in ordered}


def choose(templates: Mapping[str, Template], locale: str) -> Template | None:
    """The template for a locale: of the locale itself, then of its language, then of the default one."""
    locale = _normal(locale)
    wanted = (locale, locale.split("-")[0], DEFAULT_LOCALE)
    return next((templates[each] for each in wanted if each in templates), None)


def _normal(locale: str) -> str:
    """de_CH, de-ch and de-CH are one locale."""
    return locale.replace("_", "-").lower()


def fields_of(template: Template, steps: Steps) -> list[Field]:
    """The template's fields for its channel, compiled; kept by content, so that a new version is a new entry.

    Errors: RenderError where the template does not compile. The steps of compiling are charged each time, so that
    the outcome does not depend on what is kept.
    """
    key = (template.channel, template.title, template.body, template.html)
    kept = _COMPILED.get(key)
    if kept is not None:
        steps.spend(kept.steps)
    else:
        before = steps.remaining
        try:
            compiled: list[Field] | RenderError = _compiled(template, steps)
        except OutOfSteps:  # with more steps it may compile
            raise
        except RenderError as error:
            compiled = RenderError(str(error))
        kept = _Compiled(fields=compiled, steps=before - steps.remaining)
        _COMPILED.put(key, kept, _text_bytes(template) + _BYTES_A_TEMPLATE + int(kept.steps * _BYTES_A_STEP))
    if isinstance(kept.fields, RenderError):
        raise kept.fields
    return kept.fields


def literal_fields(channel: str, data: Mapping[str, str]) -> list[Field] | None:
    """The message a send brings itself (`title` and `body` in its data), taken as it stands; None where it does not."""
    if "title" not in data or "body" not in data:
        return None
    body_name, title_name = _NAMES[channel]["body"], _NAMES[channel]["title"]
    return [
        Field(name=title_name, personal=False, render=lambda context, _steps: _one_line(str(context["data"]["title"]))),
        Field(name=body_name, personal=False, render=lambda context, _steps: str(context["data"]["body"])),
    ]


def context_of(user: User, club_id: int, data: Mapping[str, str]) -> dict[str, Any]:
    """What a template may read."""
    return {
        "user": {"first_name": user.first_name, "last_name": user.last_name, "locale": user.locale},
        "data": data,
        "club_id": club_id,
    }


# A message's fields by channel, as delivery expects them.
_NAMES = {"push": {"title": "title", "body": "body"}, "email": {"title": "subject", "body": "text"}}


@dataclass(frozen=True, kw_only=True)
class _Compiled:
    """fields: or why there are none; steps: that compiling took."""

    fields: list[Field] | RenderError
    steps: float


_COMPILED: SizedCache[tuple[str, str, str, str | None], _Compiled] = SizedCache(MAX_CACHE_BYTES)


def _compiled(template: Template, steps: Steps) -> list[Field]:
    names = _NAMES[template.channel]
    fields = [_field(names["title"], template.title, steps), _field(names["body"], template.body, steps)]
    if template.channel == "email" and template.html is not None:
        fields.append(_field("html", template.html, steps))
    return fields


def _field(name: str, source: str, steps: Steps) -> Field:
    one_line = name in ("title", "subject")
    try:
        write, names = compile_source(source, escaped=name == "html", steps=steps)
    except RenderError as error:
        raise _in_field(name, error) from error

    def render_field(context: Mapping[str, Any], steps: Steps) -> str:
        try:
            text = render(write, context, steps)
            return _one_line(text) if one_line else text
        except RenderError as error:
            raise _in_field(name, error) from error

    return Field(name=name, personal="user" in names, render=render_field)


def _in_field(name: str, error: RenderError) -> RenderError:
    return type(error)(f"{name}: {error}")


def _text_bytes(template: Template) -> int:
    """Bytes that the texts take in memory."""
    return sum(getsizeof(text) for text in (template.title, template.body, template.html or ""))


def _one_line(text: str) -> str:
    """No line breaks: a subject with one would begin another header. Errors: RenderError where it is too long."""
    line = " ".join(text.split())
    if len(line.encode(errors="replace")) > MAX_LINE_BYTES:
        raise RenderError(f"a title or subject is longer than {MAX_LINE_BYTES} bytes")
    return line
