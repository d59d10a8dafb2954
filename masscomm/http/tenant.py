"""The clubs (tenants) that a REST caller may see, read from the context of API Gateway's Lambda authorizer.

    {"club_ids": "1,2"}        these clubs, as text, because a context cannot contain lists; "[1, 2]" is accepted too
    {"all_clubs": "true"}      every club: operators, and the local stack

Any other context permits no club: an absent or empty one, another type, a malformed or negative id, or both keys
together.

Source: AWS documentation, "Output from an API Gateway Lambda authorizer".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from masscomm.http.parameters import of_form
from masscomm.integers import integer
from masscomm.texts import Text

CLUB_IDS, EVERY_CLUB = "club_ids", "all_clubs"


@dataclass(frozen=True)
class Clubs:
    ids: frozenset[int] = frozenset()
    # Whether the set contains all clubs; `ids` is then empty.
    every: bool = False

    def __contains__(self, club_id: object) -> bool:
        return self.every or club_id in self.ids

    def __bool__(self) -> bool:
        return self.every or bool(self.ids)


NO_CLUBS = Clubs()
ALL_CLUBS = Clubs(every=True)


def clubs_of(authorizer: object) -> Clubs:
    """Return the clubs that requestContext.authorizer permits; NO_CLUBS if it has neither of the two forms above."""
    if not isinstance(authorizer, Mapping):
        return NO_CLUBS  # guard: tenancy.absent_context
    ids, every = authorizer.get(CLUB_IDS), authorizer.get(EVERY_CLUB)
    if every is not None:
        return ALL_CLUBS if every == "true" and ids is None else NO_CLUBS
    try:
        return Clubs(frozenset(_ids_in(ids)))
    except (ValueError, RecursionError):
        return NO_CLUBS


def _ids_in(text: object) -> list[int]:
    """Return the ids in the text. Raises ValueError or RecursionError if it is malformed."""
    if not isinstance(text, str):
        raise ValueError("not text")  # noqa: TRY004 - one error for all that cannot be read
    several: Any = json.loads(text) if text.lstrip().startswith("[") else text.split(",")
    ids = [parse_club_id(str(each).strip()) for each in several]
    if any(club_id < 1 for club_id in ids):
        raise ValueError("ids begin at 1")
    return ids


@of_form(Text.FORM_ID.filled())
def parse_club_id(text: str) -> int:
    return integer(text)
