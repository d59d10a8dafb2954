"""Which clubs a request may see: what a Lambda authorizer put into its context as club_ids.

club_ids is text, as an authorizer's context can hold no list: "1,2" or "[1, 2]"; "*" sees every club. Whatever else it
says, or does not say, sees none: an authorizer that ran and named no clubs has allowed none. Only where no authorizer
stands before the API (locally) everything is seen.
"""

import json
from collections.abc import Mapping
from typing import Any

from functions.metrics_handler import parameters as parse
from masscomm.problem import FieldError, Problem

type Clubs = frozenset[int] | None
"""None: every club."""


def clubs_of(authorizer: Mapping[str, Any] | None) -> Clubs:
    """The clubs an authorizer's context allows."""
    if not authorizer:
        return None
    given = authorizer.get("club_ids")
    if given == "*":
        return None
    try:
        if isinstance(given, str) and given.startswith("["):
            given = json.loads(given)
        if isinstance(given, str):
            given = given.split(",")
        if isinstance(given, int | float):
            given = [given]
        return frozenset(parse.club_id(str(each).strip()) for each in given or ())
    except (ValueError, TypeError, RecursionError):
        return frozenset()


def seen(asked: tuple[int, ...], clubs: Clubs) -> tuple[int, ...]:
    """The filter that is applied where `asked` is asked for; empty only where every club may be seen.

    Errors: Problem(403) for a club that may not be seen, and where none may.
    """
    if clubs is None:
        return asked
    if not clubs:
        raise Problem(403, "These credentials may see no club.")
    if others := [str(club) for club in asked if club not in clubs]:
        message = f"{', '.join(others)} may not be seen with these credentials"
        raise Problem(
            403, "These credentials may not see every club asked for.", errors=[FieldError("club_id", message)]
        )
    return asked or tuple(sorted(clubs))


def may_see(club_id: int, clubs: Clubs) -> bool:
    """Whether what belongs to a club may be seen."""
    return clubs is None or club_id in clubs
