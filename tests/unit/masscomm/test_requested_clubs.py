"""Responses to a tenant contain its own clubs only."""

import pytest

from masscomm.http.problem import Problem
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import ALL_CLUBS, NO_CLUBS, Clubs


def test_an_empty_filter_is_never_every_club() -> None:
    assert seen((), ALL_CLUBS) == ()
    assert seen((), Clubs(frozenset({2, 1}))) == (1, 2)
    assert seen((2,), Clubs(frozenset({2, 1}))) == (2,)
    for asked, clubs in (
        ((3,), Clubs(frozenset({2}))),
        ((2, 3), Clubs(frozenset({2}))),
        ((), NO_CLUBS),
        ((1,), NO_CLUBS),
    ):
        with pytest.raises(Problem) as raised:
            seen(asked, clubs)
        assert raised.value.status == 403
