from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.sends_api.routes.send import SendRoute
from masscomm.clock import FixedClock
from masscomm.domain.sends import Expansion, Send, SendKey, Source
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import ChannelTotals, SendTotals
from masscomm.stores.sends.in_memory import InMemorySends

WATERMARK = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)


# The FixedClock's time is 1.7e12 ms.
REQUESTED = Send(key=SendKey(7, "s"), source=Source.REST, requested_at_ms=1_699_999_999_000, type="news")


def route_of(store: InMemoryMetricsStore) -> SendRoute:
    return SendRoute(store, InMemorySends(FixedClock()), FixedClock())


def answer_of(chunks: int = 2, chunk_count: int | None = 2, **channels: ChannelTotals) -> Any:
    send = SendTotals(
        send_id="s",
        club_id=7,
        type="news",
        requested_at=WATERMARK,
        chunk_count=chunk_count,
        chunks=chunks,
        channels=channels,
        watermark=None,
    )
    return route_of(InMemoryMetricsStore(sends={"s": send}, watermark=WATERMARK)).answer("s", {}, ALL_CLUBS)


def test_each_recipient_of_a_send_is_accounted_for() -> None:
    answer = answer_of(
        push=ChannelTotals(
            requested=100,
            duplicates=4,
            queued=60,
            by_status={
                "suppressed": {"opted_out": 20, "no_device": 10},
                "failed": {"no_template": 3},
                "expired": {"expired": 2},
                "held": {"": 6},
                "sent": {"": 50},
            },
        ),
        email=ChannelTotals(requested=100, by_status={"sent": {"": 9}, "delivered": {"": 90}, "bounced": {"": 1}}),
    )
    push = answer["channels"]["push"]
    assert push["suppressed"] == {"opted_out": 20, "no_device": 10}
    assert push["failed"] == {"no_template": 3}
    assert (push["sent"], push["expired"], push["held"], push["queued"], push["duplicates"]) == (50, 2, 6, 60, 4)
    assert push["in_flight"] == 15
    assert answer["channels"]["email"]["in_flight"] == 0
    assert answer["requested"] == 200
    assert answer["totals"]["sent"] == 59
    assert answer["conservation"] == {"terminal": 185, "in_flight": 15, "ok": True}
    assert not answer["complete"]
    assert answer["watermark"] == "2026-11-21T12:00:00.250Z"


def test_send_is_complete_once_all_chunks_ended() -> None:
    done = ChannelTotals(requested=1, by_status={"sent": {"": 1}})
    assert answer_of(push=done)["complete"]
    assert not answer_of(chunks=1, push=done)["complete"]
    assert not answer_of(chunks=0, chunk_count=None, push=done)["complete"]
    assert not answer_of(push=ChannelTotals(requested=1))["complete"]


class Followed:
    """A send by REST on one channel, in several states of its counts."""

    def __init__(self, users: int | None, **values: Any) -> None:
        self.register = InMemorySends(FixedClock())
        self.register.put(replace(REQUESTED, channels=("push",), users=users, **values))

    def answer(self, chunks: int = 0, requested: int = 0, *, sent: int = 0, chunk_count: int = 4) -> Any:
        push = ChannelTotals(requested=requested, by_status={"sent": {"": sent}})
        counted = SendTotals(
            send_id="s",
            club_id=7,
            type="news",
            requested_at=WATERMARK,
            chunk_count=chunk_count,
            chunks=chunks,
            channels={"push": push},
            watermark=None,
        )
        store = InMemoryMetricsStore(sends={"s": counted} if chunks or sent else {}, watermark=WATERMARK)
        return SendRoute(store, self.register, FixedClock()).answer("s", {}, ALL_CLUBS)


@pytest.mark.guarantee("conservation.requested_does_not_fall")
@pytest.mark.kills(guard="sends.requested_does_not_fall")
def test_requested_does_not_fall_while_chunks_are_counted() -> None:
    send = Followed(20)
    answers = [send.answer(), send.answer(sent=2), *(send.answer(n, 5 * n, sent=4 * n) for n in range(1, 5))]
    assert [answer["requested"] for answer in answers] == [20] * 6
    assert [answer["channels"]["push"]["in_flight"] for answer in answers] == [20, 18, 16, 12, 8, 4]
    assert all(answer["conservation"]["ok"] for answer in answers)
    assert answers[-1]["totals"]["requested"] == 20


@pytest.mark.kills(guard="tenancy.counted_send")
def test_another_tenants_counts_with_the_same_id_add_nothing() -> None:
    send = Followed(20)
    send.register.put(
        Send(key=SendKey(8, "s"), source=Source.REST, requested_at_ms=1_699_999_999_000, users=3, channels=("push",))
    )
    assert send.answer(1, 5, sent=5)["requested"] == 3


def test_counts_of_all_chunks_replace_the_request() -> None:
    """The channels of a category may have changed after the request."""
    assert Followed(20).answer(4, 12, sent=12)["complete"]


@pytest.mark.kills(guard="sends.ended_is_requested")
def test_ended_notifications_are_requested() -> None:
    """The outcomes of a send by Kafka may be counted before its chunks."""
    answer = Followed(None, source=Source.KAFKA).answer(1, 5, sent=7)
    assert (answer["requested"], answer["totals"]["requested"], answer["conservation"]["terminal"]) == (7, 7, 7)
    assert not answer["conservation"]["ok"]


def test_an_audience_keeps_its_expansion_and_requested() -> None:
    ended = Expansion(chunks=4, users=20, requested=20, ended_at_ms=1_000)
    before = Followed(None, is_to_audience=True).answer()
    send = Followed(None, is_to_audience=True, expansion=ended)
    assert (before["requested"], before["status"]) == (None, "expanding")
    answers = [send.answer(), send.answer(1, 5), send.answer(4, 20, sent=20)]
    assert [answer["requested"] for answer in answers] == [20] * 3
    assert [answer["status"] for answer in answers] == ["accepted", "accepted", "ended"]
    assert {str(answer["expansion"]) for answer in answers} == {str(answers[0]["expansion"])}
    assert answers[0]["expansion"] == {"status": "ended", "users": 20, "requested": 20, "error": None}


def test_surplus_outcomes_of_one_channel_break_conservation() -> None:
    """Missing outcomes of e-mail do not compensate for surplus outcomes of push."""
    answer = answer_of(push=ChannelTotals(requested=1, by_status={"sent": {"": 2}}), email=ChannelTotals(requested=1))
    assert not answer["conservation"]["ok"]
    assert answer["channels"]["push"]["in_flight"] == 0


def test_uncounted_send_is_not_found() -> None:
    with pytest.raises(Problem) as raised:
        route_of(InMemoryMetricsStore()).answer("s", {}, ALL_CLUBS)
    assert raised.value.status == 404


def test_parameters_are_refused_by_name() -> None:
    with pytest.raises(Problem) as raised:
        route_of(InMemoryMetricsStore()).answer("s", {"verbose": ["1"]}, ALL_CLUBS)
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (400, ["verbose"])


def expanding(clubs: Clubs = ALL_CLUBS, **values: Any) -> Any:
    """Return the response about a send of club 7 of which nothing is counted yet."""
    register = InMemorySends(FixedClock())
    register.put(replace(REQUESTED, channels=("push", "email"), **{"is_to_audience": True} | values))
    return SendRoute(InMemoryMetricsStore(), register, FixedClock()).answer("s", {}, clubs)


def test_send_to_an_expanding_audience_is_known() -> None:
    body = expanding()
    assert body["expansion"] == {"status": "expanding", "users": None, "requested": None, "error": None}
    assert (body["club_id"], body["type"], body["requested_at"]) == (7, "news", "2023-11-14T22:13:19Z")
    assert (body["requested"], body["complete"], body["conservation"]["ok"]) == (None, False, True)


@pytest.mark.parametrize(
    ("requested", "error", "status"), [(6, None, "ended"), (0, None, "ended"), (0, "invalid", "failed")]
)
def test_end_of_an_expansion_is_shown(requested: int, error: str | None, status: str) -> None:
    """A send without notifications is complete."""
    users = requested // 2
    ended = Expansion(chunks=1, users=users, requested=requested, error=error, ended_at_ms=1_000)
    body = expanding(expansion=ended)
    assert body["expansion"] == {"status": status, "users": users, "requested": requested, "error": error}
    assert body["complete"] is (requested == 0)
    assert body["requested"] == requested


def test_accepted_send_is_known_before_it_is_counted() -> None:
    body = expanding(is_to_audience=False, users=3)
    assert (body["status"], body["complete"], body["expansion"]) == ("accepted", False, None)
    assert (body["requested"], body["conservation"]["in_flight"], list(body["channels"])) == (6, 6, ["push", "email"])
    assert body["chunks"] == {"expected": None, "counted": 0}


@pytest.mark.kills(guard="sends.deleted_counts")
@pytest.mark.parametrize(
    ("days", "values", "known"),
    [
        (7, {"is_to_audience": False}, True),
        (9, {"is_to_audience": False}, False),
        (9, {"is_to_audience": False, "send_at_ms": 1_699_999_999_000}, True),
        (9, {"expansion": Expansion(chunks=1, users=1, requested=1, ended_at_ms=1_000)}, False),
        (9, {"expansion": Expansion(chunks=0, users=0, requested=0, ended_at_ms=1_000)}, True),
    ],
    ids=["accepted", "deleted", "scheduled", "deleted audience", "audience without users"],
)
def test_send_with_deleted_counts_is_unknown(days: int, values: Any, *, known: bool) -> None:
    """Its item is kept, because it was controlled."""
    values = {"requested_at_ms": 1_699_999_999_000 - days * 86_400_000, "users": 1} | values
    if known:
        assert expanding(**values)["send_id"] == "s"
        return
    with pytest.raises(Problem) as raised:
        expanding(**values)
    assert raised.value.status == 404


def test_expanding_send_of_another_club_is_unknown() -> None:
    with pytest.raises(Problem) as raised:
        expanding(Clubs(frozenset({8})))
    assert raised.value.status == 404
