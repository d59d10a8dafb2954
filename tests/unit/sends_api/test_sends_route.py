from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.sends_api.routes import sends
from functions.sends_api.routes.sends import SendsRoute
from masscomm.clock import FixedClock
from masscomm.domain.sends import Expansion, Send, SendControl, SendKey, Source
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, NO_CLUBS, Clubs
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import ChannelTotals, SendTotals
from masscomm.stores.sends.in_memory import InMemorySends
from masscomm.stores.sends.port import Sends

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
OWN = Clubs(frozenset({1}))
CLOCK = FixedClock(round(NOON.timestamp() * 1000) + 3_600_000)


def a_send(send_id: str, minute: int, club_id: int = 1, **by_status: int) -> SendTotals:
    totals = ChannelTotals(10, 0, 10, {status: {"": number} for status, number in by_status.items()})
    return SendTotals(
        send_id=send_id,
        club_id=club_id,
        type="news",
        requested_at=NOON + timedelta(minutes=minute),
        chunk_count=1,
        chunks=1,
        channels={"push": totals},
        watermark=NOON,
    )


SENDS = [a_send("a", 0, sent=10), a_send("b", 1, sent=4, cancelled=6), a_send("c", 2, sent=3), a_send("d", 3, 2)]


def register(*controls: SendControl) -> InMemorySends:
    """Return a register with the controls of sends."""
    made = InMemorySends(CLOCK)
    for control in controls:
        made.control(control)
    return made


def paused(send_id: str) -> SendControl:
    return SendControl(send=SendKey(1, send_id), paused_at_ms=CLOCK.now_ms())


def answer(clubs: Clubs = OWN, controls: Sends | None = None, /, **parameters: str) -> Any:
    store = InMemoryMetricsStore(sends={send.send_id: send for send in SENDS}, watermark=NOON)
    route = SendsRoute(store, controls or register(), CLOCK)
    return route.answer({name: value.split("|") for name, value in parameters.items()}, clubs)


def listed(clubs: Clubs = OWN, /, **parameters: str) -> list[str]:
    return [row["send_id"] for row in answer(clubs, **parameters)["rows"]]


def refused(clubs: Clubs = OWN, /, **parameters: str) -> tuple[int, list[str]]:
    with pytest.raises(Problem) as raised:
        answer(clubs, **parameters)
    return raised.value.status, [error.field for error in raised.value.errors]


def test_sends_of_the_callers_clubs_are_listed_latest_first() -> None:
    body = answer()
    assert [row["send_id"] for row in body["rows"]] == ["c", "b", "a"]
    assert body["rows"][1] == {
        "send_id": "b",
        "club_id": 1,
        "type": "news",
        "origin": "request",
        "reference": None,
        "requested_at": "2026-11-21T12:01:00Z",
        "status": "cancelled",
        "requested": 10,
        "published": 4,
        "digested": 0,
        "suppressed": 0,
        "failed": 0,
        "cancelled": 6,
        "in_flight": 0,
        "links": {"self": "/v1/sends/b"},
    }
    assert (body["truncated"], body["next_cursor"], body["watermark"]) == (False, None, "2026-11-21T12:00:00Z")


@pytest.mark.parametrize(
    ("origin", "digests"), [([], False), (["request"], False), (["digest"], True), (["digest", "request"], None)]
)
def test_messages_of_digests_are_left_out_by_default(origin: list[str], digests: bool | None) -> None:
    query, *_ = sends._parsed({"origin": origin} if origin else {}, OWN)
    assert query.digests is digests


def test_sends_are_searched_by_name_category_and_id() -> None:
    named = InMemorySends(CLOCK)
    named.put(Send(key=SendKey(1, "a"), source=Source.REST, reference="Open day", requested_at_ms=CLOCK.now_ms()))
    for search, found in (("OPEN", ["a"]), ("new", ["c", "b", "a"]), ("b", ["b"]), ("derby", [])):
        assert [row["send_id"] for row in answer(OWN, named, search=search)["rows"]] == found


@pytest.mark.kills(guard="sends.unreadable_control_in_a_list")
def test_control_that_cannot_be_read_hides_no_send() -> None:
    controls = register(SendControl(send=SendKey(1, "c"), fault="damaged"))
    assert [row["status"] for row in answer(OWN, controls)["rows"]] == ["in_progress", "cancelled", "ended"]


def test_listed_send_has_the_reference_of_its_own_club() -> None:
    controls = register()
    for key, reference in ((SendKey(1, "a"), "derby"), (SendKey(2, "b"), "of another club")):
        controls.put(Send(key=key, source=Source.REST, requested_at_ms=CLOCK.now_ms(), reference=reference))
    rows = {row["send_id"]: row["reference"] for row in answer(OWN, controls)["rows"]}
    assert rows == {"a": "derby", "b": None, "c": None}


@pytest.mark.kills(guard="tenancy.listed_sends")
def test_another_clubs_sends_are_refused() -> None:
    assert refused(club_id="2") == (403, ["club_id"])
    assert listed(Clubs(frozenset({1, 2}))) == ["d", "c", "b", "a"]
    assert listed(Clubs(frozenset({3}))) == []


def test_an_operator_sees_the_sends_of_every_club() -> None:
    assert listed(ALL_CLUBS) == ["d", "c", "b", "a"]
    assert listed(ALL_CLUBS, club_id="2") == ["d"]


def test_registered_sends_are_listed_by_club_only() -> None:
    """The register has no list of every club: the answer says that it lacks sends that are not counted."""
    registered = register()
    registered.put(to_audience("x", 5))
    of_club = answer(ALL_CLUBS, registered, club_id="1")
    assert (of_club["rows"][0]["send_id"], of_club["registered_listed"]) == ("x", True)
    of_all = answer(ALL_CLUBS, registered)
    assert ([row["send_id"] for row in of_all["rows"]], of_all["registered_listed"]) == (["d", "c", "b", "a"], False)


def test_a_caller_without_a_club_lists_nothing() -> None:
    assert refused(NO_CLUBS) == (403, [])


def test_a_cursor_of_every_club_is_refused_to_others() -> None:
    cursor = answer(ALL_CLUBS, limit="1")["next_cursor"]
    assert listed(ALL_CLUBS, limit="2", cursor=cursor) == ["c", "b"]
    assert refused(OWN, cursor=cursor) == (400, ["cursor"])
    assert refused(ALL_CLUBS, club_id="1", cursor=cursor) == (400, ["cursor"])
    assert refused(ALL_CLUBS, cursor=answer(OWN, limit="1")["next_cursor"]) == (400, ["cursor"])


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"status": "cancelled"}, ["b"]),
        ({"status": "ended|in_progress"}, ["c", "a"]),
        ({"type": "offers"}, []),
        ({"start": "2026-11-21T12:01:00Z", "end": "2026-11-21T12:02:00Z"}, ["b"]),
    ],
)
def test_filters_select_sends(parameters: dict[str, str], expected: list[str]) -> None:
    assert listed(**parameters) == expected


def test_a_controlled_send_has_the_state_of_its_control() -> None:
    """Ended sends have no further state; a filter by status selects by the state that is shown."""
    controls = register(paused("c"), paused("a"))
    assert [row["status"] for row in answer(OWN, controls)["rows"]] == ["paused", "cancelled", "ended"]
    for status, expected in (("paused", ["c"]), ("in_progress", []), ("paused|ended", ["c", "a"])):
        assert [row["send_id"] for row in answer(OWN, controls, status=status)["rows"]] == expected
    controls.control(SendControl(send=SendKey(1, "c"), cancelled_at_ms=0))
    assert [row["send_id"] for row in answer(OWN, controls, status="cancelling")["rows"]] == ["c"]


def test_pages_by_status_reach_every_send() -> None:
    """A page may be empty: the cursor leads on."""
    first = answer(limit="1", status="in_progress|paused")
    assert [row["send_id"] for row in first["rows"]] == ["c"]
    controls = register(paused("c"))
    page = answer(OWN, controls, limit="1", status="in_progress|ended")
    assert (page["rows"], page["truncated"]) == ([], True)
    page = answer(OWN, controls, limit="1", status="in_progress|ended", cursor=page["next_cursor"])
    assert [row["send_id"] for row in page["rows"]] == ["a"]


def test_pages_follow_the_cursor() -> None:
    first = answer(limit="2")
    assert (first["truncated"], len(first["rows"])) == (True, 2)
    second = answer(limit="1", cursor=first["next_cursor"])
    assert [row["send_id"] for row in second["rows"]] == ["a"]
    assert not second["truncated"]


@pytest.mark.parametrize("cursor", ["", "x", "a" * 2_000, "W10", "ä"])
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    assert refused(cursor=cursor) == (400, ["cursor"])


def test_a_cursor_of_another_query_is_refused() -> None:
    cursor = answer(limit="1")["next_cursor"]
    assert refused(cursor=cursor, status="ended") == (400, ["cursor"])
    assert refused(Clubs(frozenset({1, 2})), cursor=cursor) == (400, ["cursor"])


def test_each_wrong_parameter_is_named() -> None:
    assert refused(status="sent", limit="0", start="now", page="2") == (400, ["page", "start", "limit", "status"])


def to_audience(send_id: str, minute: int, club_id: int = 1, **ended: Any) -> Send:
    at_ms = round(NOON.timestamp() * 1000) + minute * 60_000
    expansion = Expansion(chunks=0, users=0, requested=0, ended_at_ms=at_ms, **ended) if ended else None
    return Send(
        key=SendKey(club_id, send_id),
        source=Source.REST,
        requested_at_ms=at_ms,
        type="news",
        is_to_audience=True,
        expansion=expansion,
    )


class WithExpansions:
    """The counted sends b and c of club 1, and sends to audiences before, between and after them."""

    def __init__(self) -> None:
        self.register = register()
        self.store = InMemoryMetricsStore(sends={send.send_id: send for send in SENDS[1:3]}, watermark=NOON)
        for send in (
            to_audience("x", 0, error="why"),
            to_audience("y", 1),
            to_audience("z", 5, error=None),
            to_audience("other", 5, club_id=2),
        ):
            self.register.put(send)

    def answer(self, **parameters: str) -> Any:
        route = SendsRoute(self.store, self.register, CLOCK)
        return route.answer({name: value.split("|") for name, value in parameters.items()}, OWN)

    def rows(self, **parameters: str) -> list[Any]:
        """Return the rows of all pages."""
        rows: list[Any] = []
        while True:
            body = self.answer(**parameters)
            rows += body["rows"]
            if body["next_cursor"] is None:
                assert not body["truncated"]
                return rows
            parameters["cursor"] = body["next_cursor"]

    def listed(self, **parameters: str) -> list[tuple[str, str]]:
        return [(row["send_id"], row["status"]) for row in self.rows(**parameters)]


@pytest.mark.parametrize("limit", ["1", "2", "3", "50"])
def test_expansions_are_listed_among_counted_sends(limit: str) -> None:
    """Whatever the size of a page: of equal times, the greater id comes first."""
    expected = [("z", "ended"), ("c", "in_progress"), ("y", "expanding"), ("b", "cancelled"), ("x", "failed")]
    assert WithExpansions().listed(limit=limit) == expected


def test_an_expanding_send_has_no_requested_number() -> None:
    rows = {row["send_id"]: row for row in WithExpansions().rows()}
    assert [rows[send_id]["requested"] for send_id in ("x", "y", "z", "b")] == [0, None, 0, 10]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"status": "expanding"}, ["y"]),
        ({"status": "expanding|failed"}, ["y", "x"]),
        ({"status": "ended"}, ["z"]),
        ({"status": "cancelled"}, ["b"]),
        ({"type": "offer"}, []),
        ({"start": "2026-11-21T12:01:00Z", "end": "2026-11-21T12:05:00Z"}, ["c", "y", "b"]),
    ],
)
def test_filters_apply_to_expansions(parameters: dict[str, str], expected: list[str]) -> None:
    assert [send_id for send_id, _ in WithExpansions().listed(**parameters)] == expected


def test_the_controls_of_an_expansion_count() -> None:
    sends = WithExpansions()
    sends.register.control(paused("y"))
    assert sends.listed(status="paused") == [("y", "paused")]


def test_a_counted_expansion_is_listed_once() -> None:
    sends = WithExpansions()
    sends.register.put(to_audience("c", 2))
    assert [status for send_id, status in sends.listed() if send_id == "c"] == ["in_progress"]
