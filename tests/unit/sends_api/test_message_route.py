"""GET /v1/sends/{send_id}/message: what a send says, who sees its values, and why it is not kept."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.send_handler.preview_messages import PreviewRequest
from functions.sends_api.routes.message import MessageRoute
from masscomm.clock import FixedClock
from masscomm.domain.kept_messages import KeptMessage
from masscomm.domain.sends import Expansion, Send, SendKey, Source
from masscomm.domain.time_limits import MESSAGES_KEPT_S
from masscomm.http.problem import Problem
from masscomm.http.scopes import Scope
from masscomm.http.tenant import Clubs
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import ChannelTotals, SendTotals
from masscomm.stores.sends.in_memory import InMemorySends

NOW = 1_700_000_000_000
KEY = SendKey(7, "s")
DATA = {"opponent": "FC Riverside"}
MESSAGE = KeptMessage(type="news", channels=("push",), template="match", locale="de", data=DATA, push='{"badge":1}')
SEND = Send(
    key=KEY, source=Source.REST, requested_at_ms=NOW, type="news", users=20, channels=("push",), message=MESSAGE
)
READER, VIEWER = frozenset({Scope.READ}), frozenset({Scope.READ, Scope.USERS_READ})
CONTENT = {
    "type": "news",
    "club_id": 7,
    "channels": ["push"],
    "template": "match",
    "locale": "de",
    "data": DATA,
    "push": {"badge": 1},
}


class Asked:
    """The route over stores in memory."""

    def __init__(self, *sends: Send) -> None:
        self.clock = FixedClock(NOW)
        self.register = InMemorySends(self.clock)
        self.register.register(sends)
        self.store = InMemoryMetricsStore()

    def count(self, requested: int, kind: str = "news") -> None:
        at = datetime.fromtimestamp(NOW / 1000, UTC)
        channels = {"push": ChannelTotals(requested=requested)}
        self.store.sends["s"] = SendTotals(
            send_id="s",
            club_id=7,
            type=kind,
            requested_at=at,
            chunk_count=1,
            chunks=1,
            channels=channels,
            watermark=at,
        )

    def answer(self, *, clubs: tuple[int, ...] = (7,), scopes: frozenset[Scope] = READER, **parameters: Any) -> Any:
        route = MessageRoute(self.store, self.register, self.clock)
        return route.answer("s", parameters, Clubs(frozenset(clubs)), scopes)


def _with(**values: Any) -> Send:
    return replace(SEND, **values)


def test_content_is_a_request_of_a_preview() -> None:
    found = Asked(SEND).answer()
    assert found == {"send_id": "s", "content": CONTENT, "hidden": [], "reason": None}
    assert PreviewRequest.model_validate(found["content"]).data == DATA


@pytest.mark.kills(guard="single_users.kept_message")
@pytest.mark.parametrize(
    "send",
    [
        _with(users=19),
        _with(users=None, is_to_audience=True),
        _with(users=None, is_to_audience=True, expansion=Expansion(chunks=1, users=19, requested=19, ended_at_ms=NOW)),
        _with(users=None, source=Source.KAFKA, chunks=2),
    ],
    ids=["few", "expanding", "small audience", "chunks"],
)
def test_values_of_few_users_need_users_read(send: Send) -> None:
    asked = Asked(send)
    found = asked.answer()
    assert (found["content"]["data"], found["content"]["push"], found["hidden"]) == ({}, None, ["opponent"])
    assert asked.answer(scopes=VIEWER)["content"] == CONTENT


def test_values_of_many_counted_users_are_shown() -> None:
    asked = Asked(_with(users=None, source=Source.KAFKA, chunks=2))
    asked.count(20)
    assert asked.answer()["content"] == CONTENT


def test_message_is_its_tenants() -> None:
    with pytest.raises(Problem) as raised:
        Asked(SEND).answer(clubs=(8,))
    assert raised.value.status == 404


def test_parameters_are_refused() -> None:
    with pytest.raises(Problem) as raised:
        Asked(SEND).answer(user_id=["42"])
    assert raised.value.status == 400


@pytest.mark.parametrize("reason", ["category", "critical", "small", "too_large"])
def test_stored_reason_is_named(reason: str) -> None:
    found = Asked(_with(message=None, not_kept=reason)).answer(scopes=VIEWER)
    assert found == {"send_id": "s", "content": None, "hidden": [], "reason": reason}


def test_reason_of_a_later_version_is_unknown() -> None:
    assert Asked(_with(message=None, not_kept="later")).answer()["reason"] == "unknown"


@pytest.mark.kills(guard="kept_messages.shown_category")
def test_message_of_a_category_that_became_mandatory_is_hidden() -> None:
    sent = replace(MESSAGE, type="one_time_password")
    found = Asked(_with(type="one_time_password", message=sent)).answer(scopes=VIEWER)
    assert (found["content"], found["reason"]) == (None, "category")


def test_counted_send_has_its_message_for_30_days() -> None:
    """The register knows the send for eight days, and its counts know it afterwards."""
    asked = Asked(SEND)
    asked.count(20)
    asked.clock.advance(MESSAGES_KEPT_S - 1)
    assert asked.register.find("s") is None
    assert asked.answer()["content"] == CONTENT
    asked.clock.advance(1)
    assert (asked.answer()["content"], asked.answer()["reason"]) == (None, "expired")


def test_missing_message_of_a_recent_send_has_an_unknown_reason() -> None:
    """It was deleted when a recipient was erased, or an earlier version registered the send."""
    assert Asked(_with(message=None)).answer()["reason"] == "unknown"


def test_counted_send_of_a_mandatory_category_names_it() -> None:
    asked = Asked()
    asked.count(1, "security_alert")
    assert asked.answer()["reason"] == "category"
