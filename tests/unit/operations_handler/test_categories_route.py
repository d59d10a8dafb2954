"""GET /v1/categories returns how a category differs for the caller's clubs."""

import pytest

from functions.operations_handler.routes import categories as module
from functions.operations_handler.routes.categories import categories_body
from masscomm.domain.categories import read_categories
from masscomm.http.tenant import ALL_CLUBS, Clubs

TABLE = read_categories(
    {
        "default": {"channels": ["push"], "mandatory": False},
        "categories": {"offers": {"opt_in": ["email"]}},
        "tenants": {7: {"offers": {"channels": ["push", "email"]}}, 8: {"offers": {"opt_in": False}}},
    }
)
SEVEN = {"club_id": 7, "channels": ["push", "email"], "opt_in": ["email"]}
EIGHT = {"club_id": 8, "channels": ["push"], "opt_in": []}


@pytest.mark.kills(guard="tenancy.categories")
def test_other_clubs_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "category_table", lambda: TABLE)
    offers = {"type": "offers", "channels": ["push"], "mandatory": False, "opt_in": ["email"]}
    assert categories_body(Clubs(frozenset({7})))["rows"][1] == offers | {"clubs": [SEVEN]}
    assert categories_body(Clubs(frozenset({9})))["rows"][1] == offers | {"clubs": []}
    default, found = categories_body(ALL_CLUBS)["rows"]
    assert (default["type"], default["clubs"], found["clubs"]) == ("default", [], [SEVEN, EIGHT])
