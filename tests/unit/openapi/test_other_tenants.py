"""Each parameter of each route, alone, names another tenant's object: the response is that for an unknown one.

The caller sees club 2 and names it wherever a request has a club. Everything in the stores belongs to club 1.
"""

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from functions.operations_handler import handler as operations_handler
from functions.send_handler import previews
from functions.sends_api import handler as sends_api
from masscomm.domain.users import Template, User
from masscomm.http import cursor
from tests.support.harness import operations_api, rest_api
from tests.support.harness.chain import Chain
from tests.support.inputs.document_calls import CALLS, Call, concerns_every_club
from tests.support.inputs.refused_requests import UNKNOWN_IDS

THEIRS, OWN = "1", "2"
# Fields of bodies that name users → a user that nothing has.
NAMED_USERS = frozenset({"user_id", "to_users", "except_users"})
THEIR_USER, UNKNOWN_USER = 42, 99
# Parts of responses that differ between two equal requests.
_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z"
    # An entity tag, which follows from the name, too.
    r"|(?<=\"etag\": \"\\\")[0-9a-f]{32}"
)


@dataclass(frozen=True)
class Probe:
    """A request in which one parameter names an object of another tenant."""

    call: Call
    # path, query or body, and the name of the parameter.
    place: str
    name: str

    def __str__(self) -> str:
        return f"{self.call} {self.name}"


def path_probes() -> Iterator[Probe]:
    for call in CALLS:
        for each in call.operation["parameters"]:
            # Event types belong to no tenant.
            if each["in"] == "path" and each["name"] not in ("category", "event_type"):
                yield Probe(call, "path", each["name"])


def body_probes() -> Iterator[Probe]:
    for call in CALLS:
        body = call.event()["body"]
        for name in sorted(NAMED_USERS & set(_names(json.loads(body or "null")))):
            yield Probe(call, "body", name)


def query_probes() -> Iterator[Probe]:
    """Filters and cursors, apart from the club itself, which test_no_route_crosses_tenants names."""
    for call in CALLS:
        for each in call.operation["parameters"]:
            if each["in"] == "query" and each["name"] != "club_id":
                yield Probe(call, "query", each["name"])


def _names(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for name, each in value.items():
                yield name
                yield from _names(each)
        case list():
            for each in value:
                yield from _names(each)


def _replaced(value: Any, name: str, new: Any) -> Any:
    match value:
        case dict():
            return {key: new if key == name else _replaced(each, name, new) for key, each in value.items()}
        case list():
            return [_replaced(each, name, new) for each in value]
    return value


def own_event(call: Call) -> dict[str, Any]:
    """Return a request of the caller, whose club is its own wherever a request has one."""
    event = call.event(clubs=OWN)
    if "club_id" in event["multiValueQueryStringParameters"]:
        event["multiValueQueryStringParameters"]["club_id"] = [OWN]
    if event["body"] is not None:
        body = _replaced(_replaced(json.loads(event["body"]), "club_id", int(OWN)), "clubs", [int(OWN)])
        event["body"] = json.dumps(body)
    return event


def path_of(call: Call, **values: str) -> str:
    examples = {each["name"]: each["example"] for each in call.operation["parameters"] if each["in"] == "path"}
    return call.path.format(**{**examples, **values})


def answered(event: dict[str, Any]) -> tuple[int, Any]:
    found = rest_api.answer(event)
    return found["statusCode"], json.loads(found["body"] or "null")


def compared(event: dict[str, Any], *probed: object) -> tuple[int, str]:
    """Return the status and the body of a response, without the probed values, and what each response has anew."""
    status, body = answered(event)
    text = json.dumps(body)
    for value in probed:
        # A probed id may be one of the varying parts; a short one may also be within them.
        text = text.replace(str(value), "…") if len(str(value)) > 2 else text
    text = _VARYING.sub("…", text)
    for value in probed:
        text = text.replace(str(value), "…")
    return status, text


@pytest.fixture(autouse=True)
def chain(monkeypatch: pytest.MonkeyPatch) -> Chain:
    """Each list of club 1 has two rows, so that it has a cursor."""
    chain = rest_api.build(monkeypatch)
    store: Any = sends_api.bootstrap().sends_route.store
    operations = operations_handler.bootstrap()
    ((send_id, send),) = store.sends.items()
    store.sends["second"] = replace(send, send_id="second")
    store.stored += [replace(row, type="offer") for row in store.stored]
    (attempt,) = store.webhook_rows
    store.webhook_rows.append(replace(attempt, key=replace(attempt.key, attempt=2)))
    for each in list(store.stored_webhooks):
        other = replace(each.count, key=replace(each.count.key, type="offer"))
        store.stored_webhooks.append(replace(each, count=other))
    ((user_id, row),) = store.recipients
    store.recipients += [(user_id, replace(row, key=replace(row.key, send_id="second")))]
    store.recipients += [(43, row)]
    log: Any = operations_handler.audit_route().audit_log
    log.record(replace(log.entries[0], id="another", subject="second"))
    keys: Any = operations_handler.keys().keys
    keys.put(operations_api.key(key_id="8" * 16))
    for name, field in (("devices", "device_id"), ("suppressions", "id")):
        rows: Any = getattr(getattr(operations, name), name)
        (first,) = list(getattr(rows, f"_{'devices' if name == 'devices' else 'rows'}"))
        value = 421 if name == "devices" else f"1-{'8' * 64}"
        getattr(rows, f"_{'devices' if name == 'devices' else 'rows'}").append(replace(first, **{field: value}))
    letters: Any = operations.dead_letters.store
    letters._letters[18] = operations_api.letter(operations.dead_letters.codec, offset=18)
    results: Any = operations.webhooks.log
    results.webhook_rows += operations_api.attempts(1, f"evt_{'8' * 32}")
    own: Any = operations.webhooks.event_ids
    (event,) = [each for each, _ in own.own.values()]
    own.keep([replace(event, event_id=f"evt_{'8' * 32}")], event.occurred_at // 1000)
    templates: Any = previews.dry_runs().directory
    templates.put(Template(1002, 1, "match_reminder", "push", "en", "a", "b"), User(user_id=43, club_id=1))
    assert send_id
    return chain


@pytest.mark.guarantee("tenants.each_parameter_alone")
@pytest.mark.parametrize("probe", list(path_probes()), ids=str)
def test_an_id_of_another_tenant_reads_as_unknown(probe: Probe, chain: Chain) -> None:
    event = own_event(probe.call)
    fixed = {}
    if probe.name == "delivery_id":
        # The endpoint is the caller's own.
        created = {"url": "https://hooks.example.org/", "club_id": int(OWN)}
        other = {**event, "path": "/v1/webhooks", "body": json.dumps(created), "multiValueHeaders": {}}
        fixed["endpoint_id"] = answered(other)[1]["endpoint"]["id"]
    theirs = path_of(probe.call, **fixed)
    unknown = path_of(probe.call, **fixed, **{probe.name: UNKNOWN_IDS[probe.name]})
    example = next(each["example"] for each in probe.call.operation["parameters"] if each["name"] == probe.name)
    first = compared({**event, "path": theirs}, example)
    assert first == compared({**event, "path": unknown, "multiValueHeaders": {}}, UNKNOWN_IDS[probe.name])
    assert chain.producer.produced == []
    assert answered({**probe.call.event(), "path": path_of(probe.call)})[0] in (200, 201, 202)


@pytest.mark.guarantee("tenants.each_parameter_alone")
@pytest.mark.kills(guard="tenancy.dry_run_user")
@pytest.mark.parametrize("probe", list(body_probes()), ids=str)
def test_a_user_of_another_tenant_reads_as_unknown(probe: Probe) -> None:
    event = own_event(probe.call)
    body = json.loads(event["body"])
    responses = []
    for user_id in (THEIR_USER, UNKNOWN_USER):
        changed = copy.deepcopy(event)
        value = user_id if probe.name == "user_id" else [user_id]
        changed["body"] = json.dumps(_replaced(body, probe.name, value))
        changed["multiValueHeaders"] = {"Idempotency-Key": [f"k{user_id}"]}
        responses.append(compared(changed, user_id))
    assert responses[0] == responses[1]
    assert "Ada" not in responses[0][1]


@pytest.mark.guarantee("tenants.each_parameter_alone")
@pytest.mark.parametrize("probe", list(query_probes()), ids=str)
def test_no_filter_or_cursor_shows_another_tenant(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cursor is that of the other tenant's page, as if its query were the caller's own."""
    monkeypatch.setattr(cursor, "_fingerprint", lambda _: "f")
    # Other filters of the example are left out: each parameter is alone.
    required = {each["name"] for each in probe.call.operation["parameters"] if each["required"]} | {"club_id", "wait"}
    if probe.call.path == "/v1/metrics/stream":
        required |= {"granularity", "start", "end"}

    def alone(event: dict[str, Any], values: list[str] | None) -> dict[str, Any]:
        query = event["multiValueQueryStringParameters"]
        kept = {name: each for name, each in query.items() if name in required}
        kept |= {} if values is None else {probe.name: values}
        return {**event, "multiValueQueryStringParameters": kept}

    theirs = probe.call.event()
    values = theirs["multiValueQueryStringParameters"].get(probe.name)
    if probe.name == "cursor":
        page = alone(theirs, None)
        if probe.call.path == "/v1/webhooks":
            # Its pages are those of some clubs.
            page["requestContext"]["authorizer"]["club_ids"] = ",".join(str(club_id) for club_id in range(1, 40))
            page["multiValueQueryStringParameters"] = {}
        else:
            page["multiValueQueryStringParameters"]["limit"] = ["1"]
        values = [listed(answered(page)[1])["next_cursor"]]
        assert values != [None]
    status, body = answered(alone(own_event(probe.call), values))
    names = ("{send_id}", "{endpoint_id}", "{user_id}/stream")
    if any(name in probe.call.path for name in names) or probe.name == "endpoint_id":
        assert status == 404
        return
    if concerns_every_club(probe.call.method, probe.call.path):
        assert status == 403
        return
    assert status == 200, body
    shown = listed(body)["rows"]
    assert [row for row in shown if row.get("club_id") not in (None, int(OWN))] == []
    assert not any(
        secret in json.dumps(shown) for secret in ("second", operations_api.KEY_ID, operations_api.ADDRESS_ID)
    )


def listed(body: Any) -> Any:
    return {"rows": body["sends"]} if "sends" in body else body.get("metrics", body)
