"""Templates: which one applies, compiled once, rendered for a channel.

Templates are written by tenants: they run in Jinja's immutable sandbox, a missing variable is an error, and what they
yield is escaped for its channel and bounded. They are texts with places to fill in and conditions, no programs: loops,
assignments, calls and arithmetic are refused, because no sandbox bounds the time or memory of `{{ 'x' * 10**9 }}`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from masscomm.clock import Clock
from masscomm.directory import Directory, Template, User

DEFAULT_LOCALE = "en"
_MAX_SOURCE_CHARACTERS = 200_000
_MAX_OUTPUT_BYTES = 200_000
_KEEP_SECONDS = 5.0

# Each yields a text of about its input's size. `safe` is not among them: nobody turns the escaping off.
_FILTERS = frozenset(
    {
        "default",
        "d",
        "upper",
        "lower",
        "capitalize",
        "title",
        "trim",
        "striptags",
        "escape",
        "e",
        "truncate",
        "urlencode",
    }
    | {"first", "last", "length", "int", "float", "round", "abs", "string"}
)
_SYNTAX = frozenset(
    {nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.CondExpr, nodes.Name, nodes.Const}
    | {nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Filter, nodes.Keyword, nodes.Test}
    | {nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.List, nodes.Tuple}
)
_DEEPEST = 20

Key = tuple[int, str, str]  # club, type, channel


class RenderError(Exception):
    """This template does not render for this recipient; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One compiled field; personal: it reads the user, so that each recipient has a text of their own."""

    name: str
    personal: bool
    render: Callable[[Mapping[str, Any]], str]


class TemplateCache:
    """The templates of the clubs and categories in use, looked up again when they are some seconds old."""

    def __init__(self, directory: Directory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._known: dict[Key, tuple[float, list[Template]]] = {}

    def load(self, keys: Sequence[Key]) -> dict[Key, list[Template]]:
        """The templates of each key, one look-up for those that are not known or too old. Errors: Retry."""
        now = self._clock.monotonic()
        self._known = {key: entry for key, entry in self._known.items() if now - entry[0] < _KEEP_SECONDS}
        missing = [key for key in dict.fromkeys(keys) if key not in self._known]
        if missing:
            for key, templates in self._directory.templates(missing).items():
                if templates:  # that there is none may be about to change
                    self._known[key] = (now, templates)
        return {key: self._known[key][1] if key in self._known else [] for key in keys}

    def forget(self, key: Key) -> None:
        """Look this key up again next time."""
        self._known.pop(key, None)


def choose(templates: Sequence[Template], locale: str) -> Template | None:
    """The template for a locale: the locale itself, then its language, then the default one.

    Within each a club's own wins over the one for every club.
    """
    locale = _normal(locale)
    for wanted in dict.fromkeys([locale, locale.split("-")[0], DEFAULT_LOCALE]):
        matching = [template for template in templates if _normal(template.locale) == wanted]
        if matching:
            return min(matching, key=lambda template: (template.club_id is None, template.template_id))
    return None


def _normal(locale: str) -> str:
    """de_CH, de-ch and de-CH are one locale."""
    return locale.replace("_", "-").lower()


def fields_of(template: Template) -> list[Field]:
    """The template's fields for its channel, compiled; kept by content, so that a new version is a new entry.

    Errors: RenderError where the template does not compile.
    """
    return _compiled(template.channel, template.title, template.body, template.html)


def literal_fields(channel: str, data: Mapping[str, str]) -> list[Field] | None:
    """The message a send brings itself (`title` and `body` in its data), taken as it stands; None where it does not."""
    if "title" not in data or "body" not in data:
        return None
    body_name, title_name = _NAMES[channel]["body"], _NAMES[channel]["title"]
    return [
        Field(name=title_name, personal=False, render=lambda context: _one_line(str(context["data"]["title"]))),
        Field(name=body_name, personal=False, render=lambda context: str(context["data"]["body"])),
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


@lru_cache(maxsize=1_000)
def _compiled(channel: str, title: str, body: str, html: str | None) -> list[Field]:
    names = _NAMES[channel]
    plain = _environment(escape=False)
    fields = [_field(plain, names["title"], title, one_line=True), _field(plain, names["body"], body, one_line=False)]
    if channel == "email" and html is not None:
        fields.append(_field(_environment(escape=True), "html", html, one_line=False))
    return fields


@lru_cache(maxsize=2)
def _environment(*, escape: bool) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=escape)
    environment.filters = {name: environment.filters[name] for name in _FILTERS}
    environment.globals.clear()
    return environment


def _field(environment: ImmutableSandboxedEnvironment, name: str, source: str, *, one_line: bool) -> Field:
    if len(source) > _MAX_SOURCE_CHARACTERS:
        raise RenderError(f"{name}: the template is longer than {_MAX_SOURCE_CHARACTERS} characters")
    try:
        tree = environment.parse(source)
        _check(tree)
        personal = "user" in meta.find_undeclared_variables(tree)
        compiled = environment.from_string(source)
    except Exception as error:  # beside Jinja's own errors what Python's lexer, parser and numbers raise
        raise RenderError(f"{name}: {error}") from error

    def render(context: Mapping[str, Any]) -> str:
        try:
            text = "".join(_bounded(compiled.generate(context)))
        except Exception as error:  # a template is a tenant's program: it can raise whatever Python can
            raise RenderError(f"{name}: {error}") from error
        return _one_line(text) if one_line else text

    return Field(name=name, personal=personal, render=render)


def _bounded(pieces: Iterable[str]) -> Iterator[str]:
    """The pieces of a text while it is not too long. Errors: RenderError."""
    size = 0
    for piece in pieces:
        size += len(piece.encode())
        if size > _MAX_OUTPUT_BYTES:
            raise RenderError(f"the text is longer than {_MAX_OUTPUT_BYTES} bytes")
        yield piece


def _check(node: nodes.Node, depth: int = 0) -> None:
    """Refuse what could take time or memory out of proportion to the template's length. Errors: RenderError."""
    if type(node) not in _SYNTAX:
        raise RenderError(f"line {node.lineno}: {type(node).__name__} is not allowed in a template")
    if depth > _DEEPEST:
        raise RenderError(f"line {node.lineno}: nested more than {_DEEPEST} deep")
    for child in node.iter_child_nodes():
        if isinstance(node, nodes.List | nodes.Tuple) and not isinstance(child, nodes.Const):
            raise RenderError(f"line {node.lineno}: a list may hold constants only")
        _check(child, depth + 1)


def _one_line(text: str) -> str:
    """No line breaks: a subject with one would begin another header."""
    return " ".join(text.split())
