"""The scopes that a send needs in addition to that of its route."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from masscomm.domain.categories import category
from masscomm.domain.channels import LITERAL
from masscomm.domain.notification_rules import NotificationRule
from masscomm.domain.push_options import shows_own
from masscomm.http.scopes import Scope

# The names of the data whose texts are the message if no template applies.
LITERAL_NAMES = frozenset(LITERAL)


def scopes_of_send(
    type_: str, names: Sequence[AbstractSet[str]], *, is_critical: bool = False, shows_own: bool = False
) -> list[Scope]:
    """Return the scopes that a send needs.

    Args:
        type_: The category.
        names: The names of the variables: of the send, or of each recipient.
        is_critical: Whether it is requested in the critical lane. A critical category has it without a request.
        shows_own: Whether its pushes show a picture or buttons of the caller.
    """
    found = category(type_)
    needed = [Scope.SEND_CRITICAL] if is_critical or found.critical else []  # guard: scopes.critical
    if found.mandatory:  # guard: scopes.mandatory
        return [*needed, Scope.SEND_MANDATORY]
    # The builder uses the caller's title and body if no template applies.
    if shows_own or any(each >= LITERAL_NAMES for each in names):  # guard: scopes.own_words
        needed.append(Scope.SEND_CONTENT)
    return needed


def scopes_of_rule(rule: NotificationRule) -> frozenset[Scope]:
    """Return the scopes that the owner of a rule needs."""
    named = {Scope.USERS_READ} if (rule.audience or {}).get("except_users") else set()
    return frozenset(
        {Scope.SEND, *scopes_of_send(rule.type, [rule.data.keys()], shows_own=shows_own(rule.push))} | named
    )
