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


def check_named_users(scopes: AbstractSet[Scope], field: str) -> None:
    """Check that a caller may have a response about the users that a field of the request names by id. Raises Problem
    with status 403.
    """
    if not sees_single_users(scopes):  # guard: single_users.named
        problem = Text.USERS_NAMED.filled(field=field, scope=Scope.USERS_READ)
        raise Problem(403, problem, errors=[FieldError(field, problem)])


def check_group(scopes: AbstractSet[Scope], users: int) -> None:
    """Check that a caller may have numbers about so many users. Raises Problem with status 403, which does not contain
    the number.
    """
    if users < SMALLEST_GROUP and not sees_single_users(scopes):  # guard: single_users.small_group
        raise Problem(403, Text.USERS_FEW.filled(minimum=SMALLEST_GROUP, scope=Scope.USERS_READ))
