"""Which clubs a request over REST may speak of: what a Lambda authorizer put into its context as club_ids.

club_ids is text, as an authorizer's context can hold no list: "1,2" or "[1, 2]"; "*" is every club. Whatever else it
says, or does not say, is none: an authorizer that ran and named no clubs has allowed none. Only where no authorizer
stands before the API (locally) every club is allowed.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

type Clubs = frozenset[int] | None
"""None: every club."""


def clubs_of(authorizer: Mapping[str, Any] | None) -> Clubs:
    """The clubs an authorizer's context (requestContext.authorizer) allows."""
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
        return frozenset(parse_club_id(str(each).strip()) for each in given or ())
    except (ValueError, TypeError, RecursionError):
        return frozenset()


def allowed(club: int, clubs: Clubs) -> bool:
    """Whether what belongs to a club may be seen, or sent."""
    return clubs is None or club in clubs


def parse_club_id(text: str) -> int:
    """a whole number of 64 bits"""
    if not re.fullmatch(r"-?\d{1,19}", text, re.ASCII) or not -(2**63) <= int(text) < 2**63:
        raise ValueError(text)
    return int(text)
