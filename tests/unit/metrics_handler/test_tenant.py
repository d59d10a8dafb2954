"""What a tenant asks for is answered of its own clubs only."""

import pytest

from functions.metrics_handler.tenant import seen
from masscomm.problem import Problem


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
