from datetime import UTC, datetime
from typing import Any

import pytest

from functions.metrics_handler.routes.send import SendRoute
from functions.metrics_handler.store.in_memory import InMemoryMetricsStore
from functions.metrics_handler.store.port import ChannelTotals, SendTotals
from masscomm.clock import FixedClock
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS
from masscomm.stores.send_controls import InMemorySendControls

WATERMARK = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)


def route_of(store: InMemoryMetricsStore) -> SendRoute:
    return SendRoute(store, InMemorySendControls(), FixedClock())


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
