"""Determines the clubs (tenants) in a response: the requested ones, if the credentials permit them."""

from masscomm.http.problem import FieldError, Problem
from masscomm.http.tenant import Clubs
from masscomm.texts import Text


def seen(asked: tuple[int, ...], clubs: Clubs) -> tuple[int, ...]:
    """Return the filter for the requested clubs; it is empty only if the credentials permit every club and the
    caller requests none.

    Raises:
        Problem: 403 for a club that is not permitted, or if no club is permitted.
    """
    if clubs.every:
        return asked
    if not clubs:
        raise Problem(403, Text.NO_CLUB.filled())
    if others := [str(club) for club in asked if club not in clubs]:
        message = Text.CLUBS_NOT_SEEN.filled(clubs=", ".join(others))
        raise Problem(403, Text.CLUBS_NOT_PERMITTED.filled(), errors=[FieldError("club_id", message)])
    return asked or tuple(sorted(clubs.ids))
