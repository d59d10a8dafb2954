"""A REST API's routes, requests and responses in API Gateway's format."""

import base64
import json
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.clock import FixedClock
from masscomm.errors import Retry, Stop
from masscomm.http.problem import FieldError, Problem
from masscomm.http.rate_limits import RateLimiter, joined
from masscomm.http.rest import JSON, Api, Request, Response
from masscomm.http.tenant import NO_CLUBS
from masscomm.observability import logs
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from masscomm.texts import Text
from tests.support.inputs.api_gateway_events import EVERY_SCOPE, get, lambda_context

clock, usage = FixedClock(), InMemoryKeyUsage()
limiter = RateLimiter(usage=usage, clock=clock)
api = Api(logs.logger("test"), retry_after_s=7, limiter=lambda: limiter, slot=lambda *_: nullcontext())


@api.get("/v1/{kind}/{name}")
def describe(asked: Request, kind: str, name: str) -> Response:
    return Response(200, JSON, json.dumps([kind, name]), {"X-Asked": asked.header("x-asked") or "nothing"})


@api.get("/v1/things/count")
def count(_asked: Request) -> Response:
    return Response(204)


@api.post("/v1/things")
def take(asked: Request) -> Response:
    return Response(202, JSON, json.dumps(asked.text()))


@api.get("/v1/fails")
def fail(asked: Request) -> Response:
    raise {"retry": Retry("the database is away"), "stop": Stop("X is not set"), "fault": KeyError("secret")}[
        asked.parameters["how"][-1]
    ]


@api.get("/v1/problem")
def problem(_asked: Request) -> Response:
    wrong = Text.FIELD_UNUSABLE.filled(words="Wrong: ü")
    raise Problem(400, wrong, errors=[FieldError("a", Text.FORM_CHOICE.filled(choices="b"))])


def answered(event: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    found = api.answer(event, lambda_context())
    assert found["isBase64Encoded"] is False
    headers = {name: value for name, (value,) in found["multiValueHeaders"].items()}
    return found["statusCode"], headers, json.loads(found["body"] or "null")


def test_path_parameters_are_passed_by_name() -> None:
    assert answered(get("/v1/sends/a b")) == (200, {"Content-Type": JSON, "X-Asked": "nothing"}, ["sends", "a b"])


def test_braces_in_a_path_are_ordinary_characters() -> None:
    assert answered(get("/v1/{kind}/{name}"))[2] == ["{kind}", "{name}"]


def test_literal_path_wins_over_a_parameter() -> None:
    assert answered(get("/v1/things/count")) == (204, {}, None)


@pytest.mark.parametrize(
    "path",
    ["/v1/sends", "/v1/sends/", "/v1/sends/a/", "/v1/sends/a\0", "/v1/sends/\ud800", "/v1/things", "//v1/things/a"],
)
def test_unknown_route_is_404(path: str) -> None:
    status, headers, body = answered(get(path))
    assert (status, headers["Content-Type"], body["status"]) == (404, "application/problem+json", 404)


@given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="/"), min_size=1))
def test_any_printable_path_parameter_is_kept_whole(name: str) -> None:
    assert answered(get(f"/v1/sends/{name}"))[2] == ["sends", name]


def test_headers_have_no_case_and_may_be_repeated() -> None:
    event = get("/v1/sends/a")
    event["headers"], event["multiValueHeaders"] = {"X-ASKED": "2"}, {"x-Asked": ["1", "2"]}
    assert answered(event)[1]["X-Asked"] == "1, 2"
    event["multiValueHeaders"] = None
    assert answered(event)[1]["X-Asked"] == "2"


def test_parameters_have_all_their_values() -> None:
    event = get("/", a=["1", "2"])
    event["queryStringParameters"]["b"] = "3"
    assert Request(event, lambda: 0).parameters == {"a": ["1", "2"], "b": ["3"]}
    assert Request(get("/"), lambda: 0).parameters == {}


@pytest.mark.parametrize("event", [{}, {"requestContext": None}, {"requestContext": {"authorizer": None}}])
def test_without_an_authorizer_no_club_is_seen(event: dict[str, Any]) -> None:
    assert Request(event, lambda: 0).clubs == NO_CLUBS


def posted(body: str | None, *, is_base64: bool = False) -> dict[str, Any]:
    return get("/v1/things") | {"httpMethod": "POST", "body": body, "isBase64Encoded": is_base64}


def test_base64_body_is_decoded_to_text() -> None:
    assert answered(posted("ü"))[2] == "ü"
    assert answered(posted(base64.b64encode("ü".encode()).decode(), is_base64=True))[2] == "ü"
    assert answered(posted(None))[2] is None


@pytest.mark.parametrize("body", ["a", base64.b64encode(b"\xff").decode()])
def test_a_body_that_is_not_text_is_the_callers_fault(body: str) -> None:
    assert answered(posted(body, is_base64=True))[0] == 400


def test_problem_is_returned_with_its_status_and_errors() -> None:
    status, headers, body = answered(get("/v1/problem"))
    assert (status, headers) == (400, {"Content-Type": "application/problem+json", "Cache-Control": "no-store"})
    assert (body["detail"], body["errors"]) == (
        "Wrong: ü",
        [{"field": "a", "message": "one of b", "code": "form_choice", "parameters": {"choices": "b"}}],
    )


def test_retry_is_503_with_retry_after() -> None:
    status, headers, body = answered(get("/v1/fails", how=["retry"]))
    assert (status, headers["Retry-After"], body["detail"]) == (503, "7", "the database is away")


@pytest.mark.parametrize("how", ["stop", "fault"])
def test_own_fault_is_500_and_only_the_log_has_details(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, body = answered(get("/v1/fails", how=[how]))
    assert status == 500
    assert not {"secret", "X"} & set(body["detail"].split())
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert line["level"] == "ERROR"
    assert {"stop": "X is not set", "fault": "KeyError"}[how] in json.dumps(line)


LIMITED = EVERY_SCOPE | {"principalId": "k1", "all_clubs": "true", "requests_a_minute": "2"}


def limited(key_id: str = "k1", path: str = "/v1/things/count", **context: Any) -> tuple[int, dict[str, str], Any]:
    event = get(path)
    event["requestContext"]["authorizer"] = LIMITED | {"principalId": key_id} | context
    return answered(event)


@pytest.fixture
def full_minute() -> None:
    """Begin a new window, at its 10th second."""
    usage.used.clear()
    clock.advance(60 - clock.now_ms() // 1000 % 60 + 10)


@pytest.mark.guarantee("limits.requests_a_minute")
@pytest.mark.kills(guard="limits.refused")
@pytest.mark.usefixtures("full_minute")
def test_a_key_above_its_requests_gets_429() -> None:
    policy = {"RateLimit-Policy": '"requests";q=2;w=60'}
    assert limited()[:2] == (204, policy | {"RateLimit": '"requests";r=1;t=50'})
    assert limited()[:2] == (204, policy | {"RateLimit": '"requests";r=0;t=50'})
    status, headers, body = limited()
    assert (status, body["status"], headers["Retry-After"]) == (429, 429, "50")
    assert headers["RateLimit"] == '"requests";r=0;t=50'
    assert limited("k2")[0] == 204
    clock.advance(50)
    assert limited()[0] == 204


@pytest.mark.usefixtures("full_minute")
@pytest.mark.parametrize(("path", "status"), [("/v1/problem", 400), ("/v1/fails?how=retry", 503)])
def test_a_counted_error_has_the_limits_headers(path: str, status: int) -> None:
    path, _, how = path.partition("?how=")
    event = get(path, **({"how": [how]} if how else {}))
    event["requestContext"]["authorizer"] = LIMITED
    found, headers, _ = answered(event)
    assert (found, headers["RateLimit"]) == (status, '"requests";r=1;t=50')
    assert headers["Content-Type"] == "application/problem+json"


@pytest.mark.usefixtures("full_minute")
def test_requests_of_an_unlimited_key_are_not_counted() -> None:
    assert "RateLimit" not in answered(get("/v1/things/count"))[1]
    assert usage.used == {}


@pytest.mark.kills(guard="limits.malformed")
@pytest.mark.parametrize("value", ["", "-1", "many", "٣", 5, None])
def test_a_malformed_limit_is_refused(value: object) -> None:
    """A key whose limit cannot be read is not an unlimited key; JSON null is not a limit."""
    assert limited(requests_a_minute=value)[0] == (204 if value is None else 500)


def test_a_limit_without_a_key_is_refused() -> None:
    assert limited("")[0] == 500


@pytest.mark.guarantee("limits.store_down_refuses")
def test_requests_are_refused_while_the_store_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "failing", Retry("DynamoDB is away"))
    assert limited()[:1] == (503,)
    assert answered(get("/v1/things/count"))[0] == 204


@pytest.mark.usefixtures("full_minute")
def test_limits_of_several_kinds_are_one_header() -> None:
    assert joined({"RateLimit": "a", "X": "1"}, {"RateLimit": "b"}) == {"RateLimit": "a, b", "X": "1"}
