"""POST /v1/sends with an Idempotency-Key: one send for each key, whatever fails between two attempts."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.limits import CHUNK_SIZE
from masscomm.domain.time_limits import IDEMPOTENCY_KEPT_S
from masscomm.errors import Retry, Stop
from masscomm.http import idempotency
from masscomm.kafka import topics
from tests.support.harness.chain import NOW
from tests.support.harness.send_api import TIMEOUT_S, VALID, SendApi
from tests.support.inputs.api_gateway_events import EVERY_SCOPE

SEVERAL_CHUNKS = list(range(1, 3 * CHUNK_SIZE + 1))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


class Killed(BaseException):
    """Simulates kill -9: the function's own error handlers do not catch it."""


def kill_after(api: SendApi, chunks: int) -> None:
    """Kill the function once this many chunks are on their topic."""
    left = iter(range(chunks))

    def fail(topic: str, value: bytes | None) -> None:
        if topic == topics.SEND_API and next(left, None) is None:
            raise Killed

    api.producer.fail = fail


def lapse(api: SendApi) -> None:
    """Advance the clock by the function's time-out, so that the claim of a killed attempt lapses."""
    api.producer.fail = lambda _topic, _value: None
    api.clock.advance(TIMEOUT_S)


@pytest.mark.guarantee("idempotency.request_is_replayed")
@pytest.mark.kills(guard="idempotency.stored_response")
def test_a_repeated_request_gets_the_first_response(api: SendApi) -> None:
    status, body, headers = api.post_with("k", to_users=[1, 2, 1])
    assert (status, idempotency.REPLAYED in headers) == (202, False)
    api.clock.advance(3_600)
    again = api.post_with("k", to_users=[1, 2, 1])
    assert again == (202, body, {**headers, idempotency.REPLAYED: "true"})
    assert len(api.sends()) == 1


def test_requests_without_a_key_need_no_store(api: SendApi) -> None:
    assert api.post()[1]["send_id"] != api.post()[1]["send_id"]
    assert api.keys.calls == 0


def test_another_key_is_another_send(api: SendApi) -> None:
    assert api.post_with("k")[1]["send_id"] != api.post_with("K")[1]["send_id"]


@pytest.mark.guarantee("idempotency.keys_of_tenants_are_apart")
@pytest.mark.kills(guard="idempotency.tenants_key")
def test_a_tenants_key_is_free_for_other_tenants(api: SendApi) -> None:
    first, second = api.post_with("k", club_id=7), api.post_with("k", club_id=8)
    assert (first[0], second[0]) == (202, 202)
    assert [send.club_id for send in api.sends()] == [7, 8]


@pytest.mark.parametrize(
    "body",
    [
        '{"to_users":[1,2,3],"club_id":7,"type":"news"}',
        '{ "type" : "news", "club_id" : 7, "to_users" : [1, 2, 3] }',
        '{"type": "n\\u0065ws", "club_id": 7, "to_users": [1, 2, 3]}',
    ],
)
def test_other_spellings_are_the_same_request(api: SendApi, body: str) -> None:
    first = api.post_with("k")
    assert api.call(body, headers={"idempotency-key": " k "})[1] == first[1]
    assert len(api.sends()) == 1


@pytest.mark.guarantee("idempotency.other_request_is_refused")
@pytest.mark.kills(guard="idempotency.other_request")
@pytest.mark.parametrize("values", [{"to_users": [1, 3, 2]}, {"type": "match_reminder"}, {"reference": "r"}])
def test_another_request_under_a_key_is_422(api: SendApi, values: dict[str, Any]) -> None:
    api.post_with("k")
    status, body, headers = api.post_with("k", **values)
    assert (status, headers["Content-Type"]) == (422, "application/problem+json")
    assert [error["field"] for error in body["errors"]] == [idempotency.KEY]
    assert "new key" in body["detail"]
    assert len(api.sends()) == 1


@pytest.mark.guarantee("idempotency.one_attempt_at_a_time")
@pytest.mark.kills(guard="idempotency.in_progress")
def test_a_request_in_progress_is_409_with_retry_after(api: SendApi) -> None:
    """A claim lapses when its function has reached the time-out, even if the function was killed."""
    kill_after(api, 0)
    with pytest.raises(Killed):
        api.post_with("k")
    api.clock.advance(2.5)
    status, body, headers = api.post_with("k")
    assert (status, headers["Retry-After"], headers["Content-Type"]) == (409, "27", "application/problem+json")
    assert "27 s" in body["detail"]
    assert api.post_with("k", type="match_reminder")[0] == 422
    lapse(api)
    assert api.post_with("k")[0] == 202
    assert len(api.sends()) == 1


def test_concurrent_requests_are_one_send(api: SendApi) -> None:
    """One request executes the send; each other request is a replay, or is refused while the first is executed."""
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: api.post_with("k"), range(8)))
    assert {status for status, _, _ in answers} <= {202, 409}
    assert sum(status == 202 and idempotency.REPLAYED not in headers for status, _, headers in answers) == 1
    assert len(api.sends()) == 1


@pytest.mark.guarantee("idempotency.retry_completes_the_send")
@pytest.mark.parametrize("chunks", range(4))
def test_a_retry_after_a_kill_completes_the_send(api: SendApi, chunks: int) -> None:
    """After a kill before, between or after the chunks, the retry has the same ids, time and chunks."""
    kill_after(api, chunks)
    api.keys.failing = {"complete": Killed()} if chunks == 3 else {}
    with pytest.raises(Killed):
        api.post_with("k", to_users=SEVERAL_CHUNKS)
    api.keys.failing = {}
    before = list(api.producer.produced)
    # A deployment between the attempts may change the size of chunks.
    api.use_cases = replace(api.use_cases, requests=replace(api.use_cases.requests, chunk_size=100))
    lapse(api)
    status, body, headers = api.post_with("k", to_users=SEVERAL_CHUNKS)
    assert (status, idempotency.REPLAYED in headers) == (202, False)
    assert len(before) == chunks
    again = api.producer.produced[chunks:]
    assert [(topic, key, value) for topic, key, value, _ in again[:chunks]] == [each[:3] for each in before]
    sends = api.sends()[chunks:]
    assert {(send.send_id, send.timestamp, send.chunk_count) for send in sends} == {(body["send_id"], NOW, 3)}
    assert [user_id for send in sends for user_id in send.to_users] == SEVERAL_CHUNKS


@pytest.mark.guarantee("idempotency.failed_request_is_retried")
@pytest.mark.kills(guard="idempotency.released")
def test_a_retry_after_an_error_needs_no_wait(api: SendApi) -> None:
    """After a 5xx the key is released, and the retry completes the same send."""
    refusals = iter([None, Retry("no leader")])
    api.producer.fail = lambda _topic, _value: next(refusals, None)
    assert api.post_with("k", to_users=SEVERAL_CHUNKS)[0] == 503
    produced = {send.send_id for send in api.sends()}
    api.clock.advance(1)
    status, body, headers = api.post_with("k", to_users=SEVERAL_CHUNKS)
    assert (status, idempotency.REPLAYED in headers) == (202, False)
    assert produced == {body["send_id"]}
    assert {(send.send_id, send.timestamp) for send in api.sends()} == {(body["send_id"], NOW)}


def test_a_failed_request_keeps_its_key(api: SendApi) -> None:
    """Kafka may have some records of the failed request, so another request under its key is refused."""
    api.producer.fail = lambda _topic, _value: Retry("no leader")
    assert api.post_with("k")[0] == 503
    assert api.post_with("k", type="match_reminder")[0] == 422


@pytest.mark.guarantee("idempotency.invalid_request_keeps_no_key")
@pytest.mark.parametrize(
    ("values", "status"),
    [({"type": ""}, 400), ({"send_at": "2023-11-14T22:13:20Z"}, 400), ({"club_id": 8}, 403)],
)
def test_an_invalid_request_leaves_its_key_free(api: SendApi, values: dict[str, Any], status: int) -> None:
    """A key is claimed when the execution begins, as in Stripe's API, so a corrected request may use the key.

    Source: Stripe API reference, "Idempotent requests".
    """
    body, authorizer = json.dumps(VALID | values), EVERY_SCOPE | {"club_ids": "7"}
    assert api.call(body, authorizer=authorizer, headers={"Idempotency-Key": "k"})[0] == status
    assert api.keys.claims == {}
    assert api.post_with("k")[0] == 202


def test_times_that_passed_since_are_valid_for_a_retry(api: SendApi) -> None:
    values = {"send_at": "2023-11-14T22:13:50Z", "expires_at": "2023-11-14T22:14:00Z"}
    kill_after(api, 0)
    with pytest.raises(Killed):
        api.post_with("k", **values)
    lapse(api)
    api.clock.advance(3_600)
    first = api.post_with("k", **values)
    assert first[0] == 202
    assert api.post_with("k", **values)[1] == first[1]
    assert api.post_with("other", **values)[0] == 400


@pytest.mark.parametrize(
    "key",
    ["", " ", "x" * 256, "a\tb", "a\0", "ä", "\ud800"],
    ids=["empty", "blank", "long", "tab", "nul", "latin", "surrogate"],
)
def test_a_key_that_is_no_printable_text_is_400(api: SendApi, key: str) -> None:
    status, body, headers = api.post_with(key)
    assert (status, headers["Content-Type"]) == (400, "application/problem+json")
    assert [error["field"] for error in body["errors"]] == [idempotency.KEY]
    assert (api.sends(), api.keys.calls) == ([], 0)


@pytest.mark.parametrize("key", ["x", "x" * 255, '"quoted key"', "~"])
def test_a_printable_key_is_valid(api: SendApi, key: str) -> None:
    assert api.post_with(key)[1] == api.post_with(key)[1]


def test_two_keys_in_one_request_are_400(api: SendApi) -> None:
    status, body, _ = api.call(json.dumps(VALID), several={"idempotency-key": ["a", "b"]})
    assert (status, body["errors"][0]["message"]) == (400, "must be given once")
    assert api.sends() == []


@pytest.mark.guarantee("dynamodb_down.keyed_request_is_refused")
@pytest.mark.parametrize(("error", "status"), [(Retry("DynamoDB is down"), 503), (Stop("no table"), 500)])
def test_no_send_without_the_store(api: SendApi, error: Exception, status: int) -> None:
    """Without a claim of its key, a repeated request would be another send."""
    api.keys.failing = {"claim": error}
    assert api.post_with("k")[0] == status
    assert api.sends() == []
    assert api.post()[0] == 202


def test_a_send_on_kafka_is_accepted_without_the_store(api: SendApi) -> None:
    """If the response cannot be stored, a repeated request produces the same records under the same ids."""
    api.keys.failing = {"complete": Retry("DynamoDB is down")}
    first = api.post_with("k")
    assert first[0] == 202
    api.keys.failing = {}
    assert api.post_with("k")[0] == 409
    lapse(api)
    assert api.post_with("k")[:2] == first[:2]
    one, other = api.producer.produced
    assert one[:3] == other[:3]


def test_an_error_is_returned_if_the_key_is_not_released(api: SendApi) -> None:
    api.producer.fail = lambda _topic, _value: Retry("no leader")
    api.keys.failing = {"release": Retry("DynamoDB is down")}
    status, body, _ = api.post_with("k")
    assert (status, "no leader" in body["detail"]) == (503, True)


def test_an_attempt_that_is_overtaken_is_409(api: SendApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another environment takes over the lapsed claim before this attempt does."""
    kill_after(api, 0)
    with pytest.raises(Killed):
        api.post_with("k")
    lapse(api)
    take_over = api.keys.take_over

    def overtaken(claim: Any, *, owner: str, until_ms: int) -> Any:
        take_over(claim, owner="another", until_ms=until_ms)
        return take_over(claim, owner=owner, until_ms=until_ms)

    monkeypatch.setattr(api.keys, "take_over", overtaken)
    assert api.post_with("k")[0] == 409
    assert api.sends() == []


def test_a_key_is_another_send_after_a_day(api: SendApi) -> None:
    first = api.post_with("k")[1]
    api.clock.advance(IDEMPOTENCY_KEPT_S - 1)
    assert api.post_with("k")[1] == first
    api.clock.advance(2)
    status, body, headers = api.post_with("k")
    assert (status, idempotency.REPLAYED in headers) == (202, False)
    assert body["send_id"] != first["send_id"]


def test_logs_and_store_have_no_key_in_clear(api: SendApi, capsys: pytest.CaptureFixture[str]) -> None:
    key = "order-of-ada-4711"
    for values in ({}, {}, {"type": "match_reminder"}):
        api.post_with(key, **values)
    written = capsys.readouterr().out + repr(api.keys.claims)
    assert "response replayed" in written
    assert key not in written
