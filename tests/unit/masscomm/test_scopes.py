"""The scopes of API keys, read from an authorizer's context."""

from typing import Any

import pytest

from masscomm.http.scopes import ROUTE_SCOPES, Scope, scopes_of


@pytest.mark.kills(guard="scopes.without_scopes")
@pytest.mark.parametrize(
    ("context", "scopes"),
    [
        ({"club_ids": "1"}, set()),
        ({"all_clubs": "true"}, set()),
        ({"scopes": "send read"}, {Scope.SEND, Scope.READ}),
        ({"scopes": "send:critical"}, {Scope.SEND_CRITICAL}),
        ({"scopes": ""}, set()),
        ({"scopes": "SEND *, all send,read"}, set()),
        ({"scopes": "later read"}, {Scope.READ}),
        ({"scopes": None}, set()),
        ({"scopes": ["read"]}, set()),
        (None, set()),
        ("read", set()),
    ],
)
def test_a_context_has_the_scopes_that_it_names(context: Any, scopes: set[Scope]) -> None:
    assert scopes_of(context) == scopes


def test_no_reading_route_needs_a_scope_to_send() -> None:
    reading = {scope for (method, _), scope in ROUTE_SCOPES.items() if method == "GET"}
    assert reading == {Scope.READ, Scope.USERS_READ, Scope.WEBHOOKS, Scope.OPERATE, Scope.ADMIN}
