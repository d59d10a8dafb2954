"""GET /v1/templates: the templates of the caller's clubs and those for every club, by id.

club_id, type, channel   filters, each with any number of values
limit                    the maximum number of rows, by default 50
cursor                   next_cursor of the previous page
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from masscomm.directory.port import Directory, TemplateQuery
from masscomm.domain.limits import PAGE_STEPS
from masscomm.domain.users import Template
from masscomm.http import parameters as parse
from masscomm.http.cursor import encode_cursor, position_in
from masscomm.http.parameters import Reader
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.rendering.compiler import RenderError, Steps
from masscomm.rendering.preview import problem_of
from masscomm.rendering.templates import fields_of
from masscomm.texts import CodedBody

DEFAULT_LIMIT, MAX_LIMIT = 50, 100
PARAMETERS = ("club_id", "type", "channel", "limit", "cursor")
_LONGEST_TITLE = 200


class TemplateBody(TypedDict):
    """A template, without its body."""

    id: int
    club_id: int | None
    """The tenant that the template belongs to; null: it is for every tenant."""
    type: str
    channel: str
    locale: str
    title: str
    """The beginning of the title or subject, with its variables."""
    variables: list[str]
    """The variables that the template reads, such as `data.opponent`."""
    problem: str | None
    """The reason why no message can be rendered from the template."""
    problem_text: CodedBody | None
    """The code of the reason, with its values."""


class TemplatesBody(TypedDict):
    """Templates by id."""

    rows: list[TemplateBody]
    truncated: bool
    next_cursor: str | None


@dataclass(frozen=True)
class TemplatesRoute:
    directory: Directory

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> TemplatesBody:
        """Return the response body. Raises Problem with status 400 (with each wrong parameter) or 403, or Retry."""
        query = _parsed(parameters, clubs)
        found = self.directory.list_templates(replace(query, limit=query.limit + 1))
        rows, more = found[: query.limit], len(found) > query.limit
        steps = Steps(PAGE_STEPS)  # Later rows are not checked.
        return {
            "rows": [_row(template, steps) for template in rows],
            "truncated": more,
            "next_cursor": encode_cursor(_without_position(query), rows[-1].template_id) if more else None,
        }


_limit = parse.whole_number(1, MAX_LIMIT)


def _parsed(parameters: Mapping[str, list[str]], clubs: Clubs) -> TemplateQuery:
    read = Reader(parameters, PARAMETERS)
    club_id = read.several("club_id", parse_club_id)
    types = read.several("type", parse.words)
    channels = read.several("channel", parse.words)
    limit = read.single("limit", _limit)
    cursor = read.single("cursor", parse.cursor)
    read.check()
    # seen() returns no club only if the caller may see every club and names none.
    query = TemplateQuery(
        club_ids=seen(club_id, clubs) or None, types=types, channels=channels, limit=limit or DEFAULT_LIMIT
    )
    if cursor is None:
        return query
    return replace(query, after=position_in(cursor, _without_position(query), read, _position))


def _position(key: list[Any]) -> int:
    match key:
        case [int() as template_id] if -(2**63) <= template_id < 2**63:
            return template_id
    raise ValueError("not a template")


def _without_position(query: TemplateQuery) -> TemplateQuery:
    return replace(query, after=0, limit=0)


def _row(template: Template, steps: Steps) -> TemplateBody:
    problem = problem_of(template, steps)
    variables: set[str] = set()
    if problem is None:
        try:
            variables = {each for field in fields_of(template, steps) for each in field.reads}
        except RenderError as error:
            problem = error.text
    return {
        "id": template.template_id,
        "club_id": template.club_id,
        "type": template.type,
        "channel": template.channel,
        "locale": template.locale,
        "title": template.title[:_LONGEST_TITLE],
        "variables": sorted(variables),
        "problem": problem,
        "problem_text": None if problem is None else problem.body(),
    }
