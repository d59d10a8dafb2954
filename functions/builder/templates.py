"""Look up, choose and compile templates; each is compiled once and rendered for a channel.

Tenants write the templates. A missing variable is an error, values are escaped for the channel, and compiling and
rendering are both limited in steps (`functions/builder/rendering.py`).
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
# Maximum size of a subject or title. Python's e-mail package folds a header in quadratic time.
MAX_LINE_BYTES = 2_000
# Maximum size of each cache, of looked-up and of compiled templates: a small part of an environment's memory.
MAX_CACHE_BYTES = 16_000_000
# Memory of a compiled template in addition to its texts: closures and syntax, measured with tracemalloc.
_BYTES_A_TEMPLATE = 3_000
_BYTES_A_STEP = 60

Key = tuple[int, str, str]  # club, type, channel


@dataclass(frozen=True, kw_only=True)
class Field:
    """One compiled field of a template."""

    name: str
    # Whether it reads the user; each recipient then has a separate text.
    personal: bool
    render: Callable[[Mapping[str, Any], Steps], str]


class SizedCache[K, V]:
    """A cache that evicts the least recently used entries above max_bytes. An entry above max_bytes is not kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0

    def get(self, key: K) -> V | None:
        """Return the entry, which becomes the most recently used; None if it is missing."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: K, value: V, size: int) -> None:
        """Store an entry and evict the least recently used ones. size: bytes."""
        self.remove(key)
        self._entries[key] = value, size
        self.size += size
        while self.size > self._max_bytes:  # guard: templates.cache_bytes
            self.remove(next(iter(self._entries)))

    def remove(self, key: K) -> None:
        """Remove the entry if it exists."""
        if key in self._entries:
            self.size -= self._entries.pop(key)[1]


class TemplateCache:
    """A cache of looked-up templates, by club, category and channel. Entries expire after five seconds."""

    def __init__(self, directory: Directory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._known: SizedCache[Key, tuple[float, list[Template]]] = SizedCache(MAX_CACHE_BYTES)

    def load(self, keys: Sequence[Key]) -> dict[Key, list[Template]]:
        """Return each key's templates, with one look-up for missing and expired keys. Raises Retry."""
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
                if templates:  # an empty answer is not cached, so a first template applies immediately
                    self._known.put(key, (now, templates), sum(_text_bytes(template) for template in templates))
        return found

    def forget(self, key: Key) -> None:
        """Remove the key from the cache."""
        self._known.remove(key)


def by_locale(templates: Sequence[Template]) -> dict[str, Template]:
    """Return the template of each normalised locale. A club's own template precedes the shared one."""
    ordered = sorted(templates, key=lambda template: (template.club_id is None, template.template_id), reverse=True)
    return {_normal(template.locale): template for template in ordered}


def choose(templates: Mapping[str, Template], locale: str) -> Template | None:
    """Return the template of the locale, else of its language, else of the default locale; None without any."""
    locale = _normal(locale)
    wanted = (locale, locale.split("-")[0], DEFAULT_LOCALE)
    return next((templates[each] for each in wanted if each in templates), None)


def _normal(locale: str) -> str:
    """Normalise a locale: de_CH, de-ch and de-CH are equal."""
    return locale.replace("_", "-").lower()


def fields_of(template: Template, steps: Steps) -> list[Field]:
    """Return the template's compiled fields for its channel.

    Compiled fields are cached by the template's content, so a new version is a new entry. The steps of compiling are
    charged at each call, so the result does not depend on the cache.

    Raises:
        RenderError: the template does not compile.
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
    """Return the fields of a send with `title` and `body` in its data, unrendered; None for other sends."""
    if "title" not in data or "body" not in data:
        return None
    body_name, title_name = _NAMES[channel]["body"], _NAMES[channel]["title"]
    return [
        Field(name=title_name, personal=False, render=lambda context, _steps: _one_line(str(context["data"]["title"]))),
        Field(name=body_name, personal=False, render=lambda context, _steps: str(context["data"]["body"])),
    ]


def context_of(user: User, club_id: int, data: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that a template can read."""
    return {
        "user": {"first_name": user.first_name, "last_name": user.last_name, "locale": user.locale},
        "data": data,
        "club_id": club_id,
    }


# A message's fields by channel, as delivery expects them.
_NAMES = {"push": {"title": "title", "body": "body"}, "email": {"title": "subject", "body": "text"}}


@dataclass(frozen=True, kw_only=True)
class _Compiled:
    """A cached result of compiling a template."""

    # The fields, or the error of a template that does not compile.
    fields: list[Field] | RenderError
    # The steps of compiling it.
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
    """Return the bytes of the template's texts in memory."""
    return sum(getsizeof(text) for text in (template.title, template.body, template.html or ""))


def _one_line(text: str) -> str:
    """Remove line breaks, which would begin another header in a subject. Raises RenderError for a text too long."""
    line = " ".join(text.split())
    if len(line.encode(errors="replace")) > MAX_LINE_BYTES:
        raise RenderError(f"a title or subject is longer than {MAX_LINE_BYTES} bytes")
    return line
