"""The clubs that an answer is of: those asked for, where these credentials may see them."""

from masscomm.http.problem import FieldError, Problem
from masscomm.http.tenant import Clubs


def seen(asked: tuple[int, ...], clubs: Clubs) -> tuple[int, ...]:
    """The filter that is applied where `asked` is asked for; empty only where every club may be seen.

    Errors: Problem(403) for a club that may not be seen, and where none may.
    """
    if clubs.every:
        return asked
    if not clubs:
        raise Problem(403, "These credentials may see no club.")
    if others := [str(club) for club in asked if club not in clubs]:
        message = f"{', '.join(others)} may not be seen with these credentials"
        raise Problem(
            403, "These credentials may not see every club asked for.", errors=[FieldError("club_id", message)]
        )
    return asked or tuple(sorted(clubs.ids))
