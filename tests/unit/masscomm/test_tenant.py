"""A tenant speaks of its own clubs only, whatever an authorizer says."""

from typing import Any

import pytest

from masscomm.tenant import Clubs, allowed, clubs_of


@pytest.mark.parametrize(
    ("authorizer", "clubs"),
    [
        (None, None),
        ({}, None),
        ({"principalId": "p", "club_ids": "*"}, None),
        ({"club_ids": "7"}, {7}),
        ({"club_ids": " 1, -2 "}, {1, -2}),
        ({"club_ids": "[1, 2]"}, {1, 2}),
        ({"club_ids": [1, "2"]}, {1, 2}),
        ({"club_ids": 7}, {7}),
        ({"principalId": "p"}, set()),
        ({"club_ids": ""}, set()),
        ({"club_ids": None}, set()),
        ({"club_ids": "1,*"}, set()),
        ({"club_ids": "[1"}, set()),
        ({"club_ids": {"a": 1}}, set()),
        ({"club_ids": True}, set()),
        ({"club_ids": 1.5}, set()),
        ({"club_ids": str(2**70)}, set()),
    ],
)
def test_what_cannot_be_read_allows_nothing(authorizer: dict[str, Any] | None, clubs: set[int] | None) -> None:
    assert clubs_of(authorizer) == clubs


@pytest.mark.parametrize(("clubs", "expected"), [(None, True), (frozenset({7}), True), (frozenset({8}), False)])
def test_what_belongs_to_a_club(clubs: Clubs, expected: bool) -> None:
    assert allowed(7, clubs) is expected
