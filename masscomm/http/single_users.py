"""What responses show of single users: the scope users:read is needed for it, on every route.

Numbers about a few users show single ones. So does what a request asks about a user that it names: the numbers of 25
users and of the same without one differ by what that one has chosen.
"""

from collections.abc import Set as AbstractSet

from masscomm.domain.limits import SMALLEST_GROUP
from masscomm.http.problem import FieldError, Problem
from masscomm.http.scopes import Scope
from masscomm.texts import Text


def sees_single_users(scopes: AbstractSet[Scope]) -> bool:
    """Return whether a caller may see the texts of a user's message, and the values in a dead letter."""
    return Scope.USERS_READ in scopes


def check_shown_users(scopes: AbstractSet[Scope], *, named_in: str | None = None, group: int | None = None) -> None:
    """Check that a caller may have a response about these users.

    Args:
        scopes: The scopes of the caller.
        named_in: The field of the request that names users by id, if one does.
        group: The number of users, if the request describes them.

    Raises:
        Problem: With status 403, which does not contain the number.
    """
    if sees_single_users(scopes):
        return
    if named_in is not None:  # guard: single_users.named
        problem = Text.USERS_NAMED.filled(field=named_in, scope=Scope.USERS_READ)
        raise Problem(403, problem, errors=[FieldError(named_in, problem)])
    if group is not None and group < SMALLEST_GROUP:  # guard: single_users.small_group
        raise Problem(403, Text.USERS_FEW.filled(minimum=SMALLEST_GROUP, scope=Scope.USERS_READ))
