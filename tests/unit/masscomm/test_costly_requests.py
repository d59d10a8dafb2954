"""Costly requests: a caller has two of a kind at the same time, in whichever environments they run."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.limits import COSTLY_REQUESTS
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.rest import Request
from masscomm.operations.costly_requests import CostlyRequests
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.request_slots.port import Kind
from masscomm.texts import Text

TIMEOUT_S = 29.0


def request(principal: str = "k7") -> Request:
    return Request({"requestContext": {"authorizer": {"principalId": principal}}}, lambda: TIMEOUT_S)


@pytest.fixture
def slots() -> InMemoryRequestSlots:
    return InMemoryRequestSlots()


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def costly(slots: InMemoryRequestSlots, clock: FixedClock) -> CostlyRequests:
    return CostlyRequests(slots=slots, clock=clock)


@contextmanager
def running(costly: CostlyRequests, kind: Kind) -> Iterator[None]:
    """Run as many requests of a kind as one caller may have."""
    with ExitStack() as stack:
        for _ in range(COSTLY_REQUESTS):
            stack.enter_context(costly.one(kind, request()))
        yield


@pytest.mark.guarantee("costly_requests.a_caller_has_two")
@pytest.mark.kills(guard="costly_requests.limit")
def test_third_costly_request_of_a_caller_is_429(costly: CostlyRequests) -> None:
    with running(costly, Kind.COUNT):
        with pytest.raises(Problem) as refused, costly.one(Kind.COUNT, request()):
            pass
        assert (refused.value.status, refused.value.retry_after_s is not None) == (429, True)
        with costly.one(Kind.COUNT, request("k8")), costly.one(Kind.DRY_RUN, request()):
            pass
    with running(costly, Kind.COUNT):
        pass


@pytest.mark.kills(guard="request_slots.freed")
def test_failed_request_frees_its_slot(costly: CostlyRequests, slots: InMemoryRequestSlots) -> None:
    with pytest.raises(Problem), costly.one(Kind.COUNT, request()):
        raise Problem(409, Text.SEND_ENDED.filled())
    assert slots.taken == {}


def test_slot_of_a_crashed_request_ends_with_it(
    costly: CostlyRequests, slots: InMemoryRequestSlots, clock: FixedClock
) -> None:
    for _ in range(COSTLY_REQUESTS):
        taken = slots.take(Kind.COUNT, "k7", COSTLY_REQUESTS, now_ms=clock.now_ms(), until_ms=clock.now_ms() + 29_000)
        assert taken is not None
    clock.advance(TIMEOUT_S)
    with costly.one(Kind.COUNT, request()):
        pass


def test_request_that_cannot_be_counted_is_refused(costly: CostlyRequests, slots: InMemoryRequestSlots) -> None:
    slots.failing = Retry("down")
    with pytest.raises(Retry), costly.one(Kind.COUNT, request()):
        pass


def test_slot_that_cannot_be_freed_fails_no_request(costly: CostlyRequests, slots: InMemoryRequestSlots) -> None:
    with costly.one(Kind.COUNT, request()):
        slots.failing = Retry("down")
