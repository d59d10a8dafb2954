"""Each refusal names the field and the reason: of every route, through the local gateway, and as the client says it."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any
from uuid import uuid4

import httpx
import pytest

from cli import main as cli
from local.emulators.gateway import MAX_BODY_BYTES, MAX_HEAD_BYTES
from masscomm.http.idempotency import KEY
from masscomm.http.problem import CONTENT_TYPE
from masscomm.http.scopes import Scope
from masscomm.texts import Text
from masscomm_client import ApiError
from tests.support.harness import rest_api
from tests.support.inputs.document_calls import CALLS, Call
from tests.support.inputs.refused_requests import (
    CONTEXTS,
    UNKNOWN,
    RefusedRequest,
    refused_requests,
    words_of,
)

TEXTS = {text.code: text for text in Text}
ROUTES = {route: list(calls) for route, calls in groupby(CALLS, lambda call: (call.method, call.path))}
# The codes of a resource that does not exist. Each names the kind of the resource.
NOT_FOUND = {code for code in TEXTS if code.endswith("_unknown")} - {Text.ROUTE_UNKNOWN.code}


def of_text(body: dict[str, Any], words: str) -> bool:
    """Return whether a member of a problem has the code of its text, and the parameters of that text."""
    text = TEXTS.get(body.get("code", ""))
    return text is not None and bool(words) and sorted(body["parameters"]) == sorted(text.parameters)


def faults(request: RefusedRequest, response: httpx.Response) -> Iterator[str]:
    """Yield what the refusal of a request does not say."""
    if response.headers["content-type"] != CONTENT_TYPE:
        yield "no problem details"
        return
    body = response.json()
    detail, errors, numbers = body["detail"], body.get("errors", []), [*body["parameters"].values()]
    if body["status"] != response.status_code or not of_text(body, detail) or detail == body["title"]:
        yield f"no text with a code: {body}"
    yield from (f"an error without its text: {each}" for each in errors if not of_text(each, each["message"]))
    said = str(ApiError.of(response))
    yield from (
        f"the client says {said}" for each in errors if each["field"] not in said or each["message"] not in said
    )
    match response.status_code:
        case 400 | 422:
            named = set[str]().union(*(words_of(each["field"]) for each in errors))
            if not errors or (request.names and not named & set(request.names)):
                yield f"no error of {request.names}: {errors or detail}"
        case 403:
            by_mode = body["code"] in {Text.TEST_KEY.code, Text.TEST_KEY_RECIPIENTS.code}
            if not (
                by_mode or {*body["parameters"].values(), *words_of(detail)} & set(Scope) or "club" in detail or errors
            ):
                yield f"neither a scope nor a club nor a field: {detail}"
        case 404:
            if body["code"] not in NOT_FOUND:
                yield f"not what is unknown: {detail}"
        case 413 | 429 | 431:
            if not any(isinstance(each, int) for each in numbers):
                yield f"no limit: {detail}"


@pytest.mark.guarantee("api.refusals_name_the_field")
@pytest.mark.kills(guard="problems.unknown_fields")
@pytest.mark.kills(guard="problems.not_utf8")
@pytest.mark.kills(guard="client.reasons_of_errors")
@pytest.mark.parametrize("calls", ROUTES.values(), ids=[" ".join(route) for route in ROUTES])
def test_each_refusal_names_field_and_reason(calls: list[Call], monkeypatch: pytest.MonkeyPatch) -> None:
    rest_api.build(monkeypatch)
    found, statuses = [], set()
    with rest_api.serving(contexts=CONTEXTS) as url, httpx.Client(base_url=url, trust_env=False) as http:
        for request in refused_requests(calls):
            headers = {"x-api-key": rest_api.KEY, **request.headers}
            if KEY in headers and KEY not in request.names:
                headers[KEY] = str(uuid4())
            encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
            response = http.request(request.method, request.target, headers=encoded, content=request.body)
            statuses.add(response.status_code)
            if response.is_client_error:
                found += [f"{request}: {fault}" for fault in faults(request, response)]
            elif response.is_server_error:
                found.append(f"{request}: {response.text}")
            if request.texts and response.json().get("code") not in {text.code for text in request.texts}:
                found.append(f"{request}: {response.text}")
    assert found == []
    assert statuses >= {403, 429}


GATEWAYS = {
    "no route": RefusedRequest("GET", "/v1/colours", UNKNOWN),
    "another method": RefusedRequest("PUT", "/v1/sends", UNKNOWN),
    "no key": RefusedRequest("GET", "/v1/sends", "", headers={"x-api-key": ""}),
    "an unknown key": RefusedRequest("GET", "/v1/sends", "", headers={"x-api-key": "mc_unknown"}),
    "a large body": RefusedRequest("POST", "/v1/sends", "", body=" " * (MAX_BODY_BYTES + 1)),
    "long headers": RefusedRequest("GET", "/v1/sends", "", headers={"x-long": "x" * MAX_HEAD_BYTES}),
}


@pytest.mark.guarantee("api.refusals_name_the_field")
@pytest.mark.parametrize("wrong", GATEWAYS)
def test_gateways_own_refusals_name_the_reason(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/unit/gateway has its throttling, and tests/unit/infra the responses of API Gateway."""
    request = GATEWAYS[wrong]
    rest_api.build(monkeypatch)
    with rest_api.serving() as url:
        response = httpx.request(request.method, url + request.path, headers=request.headers, content=request.body)
    assert response.is_client_error
    allowed = NOT_FOUND | {Text.ROUTE_UNKNOWN.code}
    assert response.status_code != 404 or response.json()["code"] in allowed
    assert [each for each in faults(request, response) if not each.startswith("not what is unknown")] == []


@pytest.mark.guarantee("api.refusals_name_the_field")
@pytest.mark.kills(guard="client.reasons_of_errors")
def test_the_command_line_prints_field_and_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rest_api.build(monkeypatch)
    monkeypatch.setenv("MASSCOMM_API_KEY", rest_api.KEY)
    with rest_api.serving() as url:
        monkeypatch.setattr(
            "sys.argv", ["masscomm", "sends", "list", "--url", url, "--club", "1", "--status", "asleep"]
        )
        assert cli.main() == 1
    printed = capsys.readouterr().err
    assert "status 'asleep' cannot be used: one of" in printed
    assert "in_progress" in printed
