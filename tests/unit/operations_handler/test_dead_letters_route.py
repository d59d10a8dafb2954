"""Dead letters over HTTP: own tenants only, replayed once, untrusted text made inert and bounded."""

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from functions.operations_handler import handler as operations_handler
from functions.operations_handler.routes.dead_letters import MAX_PAYLOAD, MAX_TEXT, DeadLettersRoute
from masscomm.clock import FixedClock
from masscomm.domain.time_limits import REPLAYED_WITHIN_S
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.scopes import ALL_SCOPES, Scope
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.kafka.avro import Codec
from masscomm.kafka.dead_letters import SOURCE_TOPIC
from masscomm.kafka.topics import cdc_topic
from masscomm.operations.dead_letter_store import InMemoryDeadLetters
from masscomm.operations.dead_letters import DeadLetter
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from tests.support.harness.chain import send
from tests.support.harness.operations_api import LETTERS_AT, letter, registry

SEVEN = Clubs(frozenset({7}))
CODEC = Codec(registry())
OWN = letter(CODEC, club_id=7, offset=0)
OTHERS = letter(CODEC, club_id=8, offset=1)
UNREADABLE = letter(CODEC, offset=2, value=b"\0poison", reason="undecodable")
HOSTILE = "<script>\u202e\x1b[2J\ud800"


class Setting:
    def __init__(self, *letters: DeadLetter, allowed: str = OWN.topic, later: timedelta = timedelta()) -> None:
        self.store = InMemoryDeadLetters(letters, allowed=frozenset({allowed}), now=LETTERS_AT + later)
        self.route, self.audit_log = DeadLettersRoute(self.store, CODEC), InMemoryAuditLog()
        self.audit = operations_handler.audits(self.audit_log, FixedClock())("k7")

    def positions(self, clubs: Clubs = SEVEN, **parameters: Any) -> list[str]:
        body = self.route.answer({name: [str(value)] for name, value in parameters.items()}, clubs, ALL_SCOPES, 29)
        return [row["position"] for row in body["rows"]]

    def replay(self, position: str = "0@0", clubs: Clubs = SEVEN) -> Any:
        return self.route.replay(position, None, clubs, "k7", self.audit)[0]

    def discard(self, position: str = "0@0", clubs: Clubs = SEVEN, *, content: str = '{"reason": " over "}') -> Any:
        return self.route.discard(position, content, clubs, "k7", self.audit)[0]

    def show(self, position: str = "0@0", clubs: Clubs = SEVEN, scopes: frozenset[Scope] = ALL_SCOPES) -> Any:
        return self.route.show(position, {}, clubs, scopes, self.audit)

    def actions(self) -> list[tuple[str, int | None, str, str, str]]:
        entries = self.audit_log.entries
        return [(each.action, each.club_id, each.principal, each.subject, each.result) for each in entries]


@pytest.fixture
def setting() -> Setting:
    return Setting(OWN, OTHERS, UNREADABLE)


@pytest.mark.guarantee("dead_letters.own_tenant_only")
@pytest.mark.kills(guard="tenancy.dead_letters")
def test_a_caller_lists_the_letters_of_its_clubs(setting: Setting) -> None:
    """A letter without a readable club is visible to a caller who may see every club."""
    assert setting.positions() == ["0@0"]
    assert setting.positions(Clubs(frozenset({7, 8}))) == ["0@1", "0@0"]
    assert setting.positions(ALL_CLUBS) == ["0@2", "0@1", "0@0"]
    assert setting.positions(ALL_CLUBS, club_id=8) == ["0@1"]
    with pytest.raises(Problem) as raised:
        setting.positions(club_id=8)
    assert raised.value.status == 403


@pytest.mark.kills(guard="tenancy.dead_letter")
@pytest.mark.parametrize("position", ["0@1", "0@2", "0@9", "0@", "..", "1@0"])
def test_other_and_unknown_letters_have_the_same_response(setting: Setting, position: str) -> None:
    for change in (setting.replay, setting.discard, lambda each: setting.show(each)):
        with pytest.raises(Problem, match="unknown") as raised:
            change(position)
        assert (raised.value.status, raised.value.detail) == (404, "The dead letter is unknown.")
    assert setting.store.replayed == []
    assert dict(setting.store.marks()) == {}


@pytest.mark.guarantee("dead_letters.replayed_once_over_rest")
def test_a_letter_is_replayed_once_and_audited(setting: Setting) -> None:
    assert setting.replay("0%400") == {"position": "0@0", "status": "replayed", "topic": "send.api"}
    for repeat in (setting.replay, setting.discard):
        with pytest.raises(Problem, match="already replayed") as raised:
            repeat()
        assert raised.value.status == 409
    assert setting.store.replayed == [OWN]
    assert setting.actions() == [
        ("dead_letter.replayed", 7, "k7", "0@0", "ok"),
        ("dead_letter.replayed", 7, "k7", "0@0", "failed"),
        ("dead_letter.discarded", 7, "k7", "0@0", "failed"),
    ]


def test_a_repeated_replay_gets_the_first_response(setting: Setting) -> None:
    """The first response is lost. Without the key, or by another principal, the letter is replayed already."""

    def replay(principal: str, key: str | None) -> Any:
        return setting.route.replay("0@0", None, SEVEN, principal, setting.audit, key)

    body = {"position": "0@0", "status": "replayed", "topic": "send.api"}
    assert [replay("k7", "a") for _ in range(2)] == [(body, False), (body, True)]
    assert setting.store.replayed == [OWN]
    assert len(setting.actions()) == 1
    for principal, key in (("k7", None), ("k7", "b"), ("k8", "a")):
        with pytest.raises(Problem, match="already replayed"):
            replay(principal, key)


def test_a_repeated_discard_gets_the_first_response(setting: Setting) -> None:
    def discard(reason: str) -> Any:
        return setting.route.discard("0@0", json.dumps({"reason": reason}), SEVEN, "k7", setting.audit, "a")

    body = {"position": "0@0", "status": "discarded", "reason": "over"}
    assert [discard("over") for _ in range(2)] == [(body, False), (body, True)]
    with pytest.raises(Problem, match="already discarded"):
        discard("other")


def test_a_discard_has_a_reason_and_is_audited(setting: Setting) -> None:
    assert setting.discard() == {"position": "0@0", "status": "discarded", "reason": "over"}
    assert setting.actions() == [("dead_letter.discarded", 7, "k7", "0@0", "ok")]
    assert setting.audit_log.entries[0].detail == "discarded: over"
    (action,) = setting.show()["history"]
    assert (action["status"], action["by"], action["detail"]) == ("discarded", "k7", "over")
    assert setting.positions(status="discarded") == ["0@0"]
    assert setting.positions(status="open") == []


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("", "reason"),
        ("{}", "reason"),
        ('{"reason": " "}', "reason"),
        ('{"reason": 1}', "reason"),
        ('{"reason": "%s"}' % ("a" * 501), "reason"),
        ('{"reason": "a", "by": "b"}', "by"),
        ("[]", ""),
    ],
)
def test_a_discard_without_a_reason_is_refused(setting: Setting, content: str, field: str) -> None:
    with pytest.raises(Problem) as raised:
        setting.discard(content=content)
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (400, [field])
    assert dict(setting.store.marks()) == {}


def test_a_letter_of_another_topic_is_not_replayed() -> None:
    """A header could name any topic."""
    setting = Setting(replace(OWN, topic="outcome", position="0@0"))
    with pytest.raises(Problem, match="no source topic") as raised:
        setting.replay(clubs=ALL_CLUBS)
    assert (raised.value.status, setting.store.replayed) == (409, [])


@pytest.mark.guarantee("dead_letters.not_replayed_after_its_ids")
@pytest.mark.parametrize(("topic", "timestamp"), [("send.api", None), ("delivery.critical", None), ("build", "\0")])
def test_letter_with_forgotten_ids_is_not_replayed(topic: str, timestamp: str | None) -> None:
    """Its recipients would be counted once more, and get the message again."""
    of_topic = replace(OWN, topic=topic, position="0@0", timestamp=timestamp or OWN.timestamp)
    setting = Setting(of_topic, allowed=topic, later=timedelta(seconds=REPLAYED_WITHIN_S + 1))
    with pytest.raises(Problem, match="older than 6 days") as raised:
        setting.replay(clubs=ALL_CLUBS)
    assert (raised.value.status, setting.store.replayed) == (409, [])
    assert setting.discard(clubs=ALL_CLUBS)["status"] == "discarded"
    in_time = Setting(of_topic, allowed=topic, later=timedelta(seconds=REPLAYED_WITHIN_S))
    assert in_time.replay(clubs=ALL_CLUBS)["status"] == "replayed"


def test_an_old_letter_of_the_outbox_is_replayed() -> None:
    """Events have ids: a repeated one is harmless at any time."""
    topic = cdc_topic("outbox", "g1")
    setting = Setting(replace(OWN, topic=topic), allowed=topic, later=timedelta(days=29))
    assert setting.replay(clubs=ALL_CLUBS)["status"] == "replayed"


def test_a_shown_letter_has_its_decoded_payload(setting: Setting) -> None:
    body = setting.show()
    assert json.loads(body["payload"] or "")["to_users"] == [42]
    assert (body["letter"]["club_id"], body["payload_truncated"]) == (7, False)
    unreadable = setting.show("0@2", ALL_CLUBS)
    assert (unreadable["payload"], unreadable["payload_base64"]) == (None, "AHBvaXNvbg==")
    assert unreadable["payload_error"]


PERSONAL = send([4242], data={"secret_name": "secret"}, recipient_data={"0": {"secret_name": "secret"}})
OUTLINED = letter(
    CODEC,
    offset=3,
    value=CODEC.encode("send.api", "SendRequested", PERSONAL.to_avro()),
    key=b"secret",
    error="the row id=4242 is secret",
    headers=((SOURCE_TOPIC, b"send.api"), ("trace", b"secret")),
)
CHANGED_ROW = b'{"after": {"id": 4242, "4242": {"email": "secret"}}}'
CHANGE = letter(CODEC, offset=4, topic="cdc.g1.public.users", value=CHANGED_ROW)


@pytest.mark.guarantee("dead_letters.values_need_users_read")
@pytest.mark.kills(guard="dead_letters.outlined")
@pytest.mark.kills(guard="dead_letters.error")
@pytest.mark.kills(guard="dead_letters.keys_of_a_map")
def test_letter_without_users_read_has_names_and_types() -> None:
    setting = Setting(OUTLINED, CHANGE, UNREADABLE)
    operator = frozenset({Scope.OPERATE})
    body = setting.show("0@3", scopes=operator)
    payload = json.loads(body["payload"])
    assert (body["outlined"], payload["to_users"], payload["club_id"]) == (True, ["integer"], "integer")
    assert (payload["data"], payload["recipient_data"]) == ({"*": "text"}, {"*": {"*": "text"}})
    assert (payload["locale"], payload.keys()) == (None, CODEC.decode("SendRequested", OUTLINED.value).keys())
    change = setting.show("0@4", ALL_CLUBS, operator)
    assert json.loads(change["payload"]) == {"after": {"id": "integer", "*": {"email": "text"}}}
    unreadable = setting.show("0@2", ALL_CLUBS, operator)
    assert (unreadable["payload"], unreadable["payload_base64"], unreadable["payload_error"]) == (None, None, None)
    page = setting.route.answer({}, ALL_CLUBS, operator, 29)
    assert [row["error"] for row in page["rows"]] == [""] * 3
    for shown in (body, change, page):
        assert not any(value in json.dumps(shown) for value in ("secret", "4242"))
    assert setting.actions() == []


@pytest.mark.guarantee("dead_letters.reading_is_audited")
@pytest.mark.kills(guard="dead_letters.audited")
def test_reading_the_values_of_a_letter_is_audited() -> None:
    setting = Setting(OUTLINED)
    assert json.loads(setting.show("0@3")["payload"])["to_users"] == [4242]
    assert setting.actions() == [("dead_letter.shown", 7, "k7", "0@3", "ok")]


@pytest.mark.guarantee("dead_letters.nothing_is_read_without_audit")
@pytest.mark.kills(guard="audit.before_reading")
def test_no_value_is_shown_while_the_audit_log_is_down() -> None:
    setting = Setting(OUTLINED)
    setting.audit_log.failing = Retry("no audit log")
    with pytest.raises(Retry, match="no audit log"):
        setting.show("0@3")


def test_hostile_text_is_inert_and_bounded() -> None:
    text = HOSTILE + "x" * 2_000_000
    hostile = letter(
        CODEC,
        club_id=7,
        error=text,
        reason=text,
        key=b"\xff\x1b" * 5_000,
        headers=((HOSTILE, b"\x1b\xff" * 5_000),) * 500,
    )
    setting = Setting(
        hostile, letter(CODEC, offset=18, value=b'{"a": "\xe2\x80\xae' + b"x" * 100_000 + b'"}', topic="cdc")
    )
    bodies = [setting.show(position, ALL_CLUBS) for position in ("0@17", "0@18")]
    for body in (*bodies, setting.route.answer({}, ALL_CLUBS, ALL_SCOPES, 29)):
        written = json.dumps(body, ensure_ascii=False)
        assert not any(each in written for each in ("\u202e", "\x1b", "\ud800"))
        written.encode()
        assert len(written) < 2_000_000
    assert len(bodies[0]["headers"]) == 100
    assert len(bodies[0]["letter"]["error"]) <= MAX_TEXT + 100
    assert len(bodies[1]["payload"] or "") == MAX_PAYLOAD
    assert bodies[1]["payload_truncated"]


def test_letters_are_filtered(setting: Setting) -> None:
    assert setting.positions(ALL_CLUBS, reason="undecodable") == ["0@2"]
    assert setting.positions(ALL_CLUBS, topic="build") == []
    assert setting.positions(ALL_CLUBS, function="preference_checker", limit=1) == ["0@2"]
    assert setting.positions(ALL_CLUBS, end="2000-01-01T00:00:00Z") == []
    assert len(setting.positions(ALL_CLUBS, start="2000-01-01T00:00:00Z")) == 3


def test_the_cursor_of_another_query_is_refused(setting: Setting) -> None:
    cursor = setting.route.answer({"limit": ["1"]}, ALL_CLUBS, ALL_SCOPES, 29)["next_cursor"]
    assert setting.positions(ALL_CLUBS, limit=1, cursor=cursor) == ["0@1"]
    with pytest.raises(Problem, match="cursor"):
        setting.positions(cursor=cursor)


@pytest.mark.parametrize(
    "parameters", [{"club_id": "x"}, {"status": "lost"}, {"limit": 101}, {"cursor": "x"}, {"start": "now"}, {"a": 1}]
)
def test_wrong_parameters_are_named(setting: Setting, parameters: dict[str, Any]) -> None:
    with pytest.raises(Problem) as raised:
        setting.positions(**parameters)
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (400, list(parameters))


@dataclass
class DownRegistry:
    def schema_by_id(self, _id: int) -> Any:
        raise Retry("down")


def test_letters_are_not_hidden_while_the_registry_is_down(setting: Setting) -> None:
    """A page without the letters of the caller would be wrong."""
    route = DeadLettersRoute(setting.store, Codec(DownRegistry()))  # type: ignore[arg-type]
    with pytest.raises(Retry):
        route.answer({}, SEVEN, ALL_SCOPES, 29)
