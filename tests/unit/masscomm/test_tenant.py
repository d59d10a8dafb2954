"""A caller reads and sends for its own clubs only, for any authorizer context."""

from typing import Any

import pytest

from masscomm.http.tenant import ALL_CLUBS, NO_CLUBS, Clubs, clubs_of
from tests.support.inputs.unusable_tenants import UNUSABLE


@pytest.mark.parametrize(
    ("authorizer", "clubs"),
    [
        ({"club_ids": "7"}, {7}),
        ({"principalId": "p", "club_ids": " 1, 2 "}, {1, 2}),
        ({"club_ids": "[1, 2]"}, {1, 2}),
    ],
)
def test_readable_ids_allow_these_clubs(authorizer: dict[str, Any], clubs: set[int]) -> None:
    assert clubs_of(authorizer) == Clubs(frozenset(clubs))


def test_all_clubs_needs_its_own_context_key() -> None:
    assert clubs_of({"principalId": "operator", "all_clubs": "true"}) == ALL_CLUBS


@pytest.mark.parametrize("authorizer", UNUSABLE, ids=repr)
def test_an_unusable_context_allows_no_club(authorizer: object) -> None:
    assert clubs_of(authorizer) == NO_CLUBS


@pytest.mark.parametrize(
    ("clubs", "expected"),
    [(ALL_CLUBS, True), (NO_CLUBS, False), (Clubs(frozenset({7})), True), (Clubs(frozenset({8})), False)],
)
def test_only_allowed_clubs_are_visible(clubs: Clubs, expected: bool) -> None:
    assert (7 in clubs) is expected
