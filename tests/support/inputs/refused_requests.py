"""Requests that the API refuses: each call of the OpenAPI document's examples with one part changed."""

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from masscomm.domain.key_limits import REQUESTS
from masscomm.http.idempotency import KEY
from masscomm.http.scopes import ALL_SCOPES, ROUTE_SCOPES, Scope, scopes_text
from masscomm.texts import Text
from tests.support.inputs.document_calls import Call

# Values for any field. Each is of the wrong type, beyond a limit, or of no known form in most fields.
_VALUES: tuple[Any, ...] = (None, -1, 2**70, "", "nul\0", "x" * 20_000, [None], {"x": {}})
# Values for any parameter.
_TEXTS = ("", "nul\0", f"{2**70}")
# Bodies for any route.
_BODIES: tuple[str | bytes, ...] = (
    *("", "{", "[]", '"text"', '{"a": 1, "a": 2}', '{"a": NaN}', "[" * 2_000, f'{{"a": 1{"0" * 400}}}'),
    b'{"a": "\xff"}',
)
_INVALID_FIELDS = frozenset({Text.FIELD_INVALID, Text.FIELDS_INVALID})
# Path parameters → an id of the right form that nothing has.
UNKNOWN_IDS = {
    "send_id": "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f30",
    "name": "unheard",
    "schedule": "unheard",
    "notification": "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f30.99.push",
    "user_id": "99",
    "position": "0@99",
    "device_id": "99",
    "key_id": "9" * 16,
    "suppression": f"1-{'9' * 64}",
    "endpoint_id": "ep_1_99999999999999999999",
    "delivery_id": f"1763726400000-evt_{'9' * 32}",
    "category": "unheard",
    "tenant": "99",
    "event_type": "match.unknown",
    "source_id": f"src_1_{'a' * 26}",
    "subscription_id": f"sub_1_{'9' * 20}_{'9' * 12}",
}
UNKNOWN = "an unknown id"
# The keys of other callers than the operator, and the authorizer's contexts of their requests.
OTHER_CLUB, NO_CLUB, TEST, ONE_REQUEST = "another club's key", "no club's key", "a test key", "a key of one request"
_OPERATOR = {"principalId": "k", "all_clubs": "true", "scopes": scopes_text(ALL_SCOPES)}
CONTEXTS: Mapping[str, Mapping[str, str]] = {
    OTHER_CLUB: {"principalId": "k", "club_ids": "2", "scopes": scopes_text(ALL_SCOPES)},
    NO_CLUB: {"principalId": "k", "scopes": scopes_text(ALL_SCOPES)},
    TEST: _OPERATOR | {"mode": "test"},
    ONE_REQUEST: _OPERATOR | {REQUESTS.setting: "1"},
    **{f"without {scope}": _OPERATOR | {"scopes": scopes_text(ALL_SCOPES - {scope})} for scope in Scope},
}


@dataclass(frozen=True)
class RefusedRequest:
    """A request that may be refused, and the part of it that is wrong."""

    method: str
    path: str
    # The name of the fault, for messages of tests.
    wrong: str
    # The names of the wrong field, from the outermost; empty if the whole of the request or the caller is wrong.
    names: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    # The texts of the refusal, of which it has one; empty: the request may be accepted, or refused for another reason.
    texts: frozenset[Text] = frozenset()
    body: str | bytes | None = None

    @property
    def target(self) -> str:
        return f"{quote(self.path)}?{urlencode(self.query)}" if self.query else quote(self.path)

    def __str__(self) -> str:
        return f"{self.method} {self.path} with {self.wrong}"


def refused_requests(calls: Iterable[Call]) -> Iterator[RefusedRequest]:
    """Yield calls of one route with each of their parts changed in turn; a part of several calls is changed once."""
    seen: set[tuple[str | int, ...]] = set()
    for number, call in enumerate(calls):
        if number == 0:
            yield from _other_callers(call)
            yield from _other_parameters(call)
            yield from _other_bodies(call)
        if KEY in _plain(call).headers and call.name:
            # The key of an earlier request, but for the first one.
            yield replace(_plain(call), wrong="the key of an earlier request", names=(KEY,))
        if call.name:
            document = json.loads(call.event()["body"])
            new = [place for place in [(), *_places(document)] if place not in seen]
            seen |= set(new)
            yield from _other_fields(call, document, new)


def _other_callers(call: Call) -> Iterator[RefusedRequest]:
    plain = _plain(call)
    for key in (f"without {ROUTE_SCOPES[call.method, call.path]}", OTHER_CLUB, NO_CLUB, TEST, ONE_REQUEST, ONE_REQUEST):
        yield replace(plain, wrong=key, headers={**plain.headers, "x-api-key": key})
    accept = {**plain.headers, "Accept": "image/png"}
    yield replace(plain, wrong="Accept: image/png", headers=accept)


def _other_parameters(call: Call) -> Iterator[RefusedRequest]:
    plain = _plain(call)
    yield replace(plain, wrong="an unknown parameter", names=("colour",), query=(*plain.query, ("colour", "red")))
    for each in call.operation["parameters"]:
        name, changed = each["name"], replace(plain, names=(each["name"],))
        if each["in"] == "query":
            others = tuple(pair for pair in plain.query if pair[0] != name)
            given = next((value for key, value in plain.query if key == name), "1")
            yield replace(changed, wrong=f"no {name}", query=others)
            yield replace(changed, wrong=f"{name} twice", query=(*others, (name, given), (name, given)))
            for text in _TEXTS:
                yield replace(changed, wrong=f"{name}={text[:20]!r}", query=(*others, (name, text)))
        elif each["in"] == "header":
            headers = {key: value for key, value in plain.headers.items() if key != name}
            yield replace(changed, wrong=f"no {name}", headers=headers)
            yield replace(changed, wrong=f"{name}: é", headers={**headers, name: "é"})
        else:
            path = _examples(call, "path")
            for value, wrong in ((UNKNOWN_IDS[name], UNKNOWN), ("x" * 300, f"a wrong {name}")):
                yield replace(changed, wrong=wrong, path=call.path.format(**{**path, name: value}))


def _other_bodies(call: Call) -> Iterator[RefusedRequest]:
    plain = _plain(call)
    for body in _BODIES if call.method in ("POST", "PUT", "PATCH") else ():
        texts = frozenset({Text.BODY_NOT_UTF8} if isinstance(body, bytes) else ())
        yield replace(plain, wrong=f"the body {body[:20]!r}", body=body, texts=texts)
    if call.name:
        media_type = {**plain.headers, "Content-Type": "text/plain"}
        yield replace(plain, wrong="Content-Type: text/plain", names=("Content-Type",), headers=media_type)


def _other_fields(call: Call, document: Any, places: Iterable[tuple[str | int, ...]]) -> Iterator[RefusedRequest]:
    for place in places:
        names = tuple(str(each) for each in place if isinstance(each, str))
        changed = replace(_plain(call), names=names)
        for value in _VALUES if place else ():
            body = json.dumps(_with(document, place, value))
            yield replace(changed, wrong=f"{'.'.join(names)} = {str(value)[:20]!r}", body=body)
        if place and isinstance(place[-1], str):
            yield replace(changed, wrong=f"no {'.'.join(names)}", body=json.dumps(_with(document, place, ...)))
        if isinstance(_at(document, place), dict):
            body = json.dumps(_with(document, (*place, "colour"), "red"))
            # A send's data may have any name.
            texts = frozenset() if place else _INVALID_FIELDS
            wrong = f"an unknown field of {'.'.join(names)}"
            yield replace(changed, wrong=wrong, names=(*names, "colour"), body=body, texts=texts)


def words_of(name: str) -> set[str]:
    """Return the parts of a field's name in a problem, such as `to_users` and `3` of `to_users[3]`."""
    return set(re.split(r"[.\[\]]+", name)) - {""}


def _plain(call: Call) -> RefusedRequest:
    event = call.event()
    query = tuple((name, each) for name, values in event["multiValueQueryStringParameters"].items() for each in values)
    headers = {name: values[0] for name, values in event["multiValueHeaders"].items()}
    if event["body"] is not None:
        headers["Content-Type"] = "application/json"
    return RefusedRequest(call.method, event["path"], "", query=query, headers=headers, body=event["body"])


def _examples(call: Call, place: str) -> dict[str, Any]:
    return {each["name"]: each["example"] for each in call.operation["parameters"] if each["in"] == place}


def _places(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the place of each value in a document; of a list, that of the first."""
    match value:
        case dict():
            members: list[tuple[str | int, Any]] = list(value.items())
        case [first, *_]:
            members = [(0, first)]
        case _:
            members = []
    for name, each in members:
        yield (*place, name)
        yield from _places(each, (*place, name))


def _at(document: Any, place: tuple[str | int, ...]) -> Any:
    for name in place:
        document = document[name]
    return document


def _with(document: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """Return the document with a value at a place; `...` removes it."""
    changed = copy.deepcopy(document)
    parent = _at(changed, place[:-1])
    if value is ...:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return changed
