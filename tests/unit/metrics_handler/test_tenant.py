"""A tenant sees only its own, whatever an authorizer says."""

from typing import Any

import pytest

from functions.metrics_handler.tenant import Clubs, clubs_of, may_see, seen
from masscomm.problem import Problem


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


def test_an_empty_filter_is_never_every_club() -> None:
    assert seen((), None) == ()
    assert seen((), frozenset({2, 1})) == (1, 2)
    assert seen((2,), frozenset({2, 1})) == (2,)
    for asked, clubs in (
        ((3,), frozenset({2})),
        ((2, 3), frozenset({2})),
        ((), frozenset[int]()),
        ((1,), frozenset[int]()),
    ):
        with pytest.raises(Problem) as raised:
            seen(asked, clubs)
        assert raised.value.status == 403


@pytest.mark.parametrize(("clubs", "expected"), [(None, True), (frozenset({7}), True), (frozenset({8}), False)])
def test_what_belongs_to_a_club(clubs: Clubs, expected: bool) -> None:
    assert may_see(7, clubs) is expected
