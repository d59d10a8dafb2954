"""POST /v1/sends/batch: a result for each send, and each accepted send once."""

import json
from itertools import islice
from random import Random
from typing import Any

import pytest

from masscomm.domain.limits import BATCH_RECIPIENTS, BATCH_SENDS
from masscomm.errors import Retry
from masscomm.http import idempotency
from masscomm.kafka import topics
from tests.support.harness.send_api import TIMEOUT_S, VALID, Answered, SendApi

PATH = "/v1/sends/batch"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


def post(api: SendApi, *sends: Any, key: str = "k", authorizer: dict[str, Any] | None = None) -> Answered:
    headers = {idempotency.KEY: key}
    return api.call(json.dumps({"sends": sends}), path=PATH, headers=headers, authorizer=authorizer)


def ids(body: dict[str, Any]) -> list[str]:
    return [result["send"]["send_id"] for result in body["results"] if result["send"]]


class Killed(BaseException):
    """Simulates kill -9: the function's own error handlers do not catch it."""


def test_each_send_has_its_result(api: SendApi) -> None:
    status, body, _ = post(
        api,
        VALID | {"to_users": [1, 1, 2], "reference": "a"},
        VALID | {"to_users": ["x"]},
        VALID | {"expires_at": "2001-01-01T00:00:00Z"},
        "no object",
        VALID | {"to_users": [3], "priority": "critical"},
    )
    assert (status, body["accepted"], body["refused"]) == (200, 2, 3)
    assert [result["status"] for result in body["results"]] == [202, 400, 400, 400, 202]
    first, wrong, expired, no_object, _ = body["results"]
    assert (first["send"]["requested"], first["send"]["duplicates"], first["problem"]) == (2, 1, None)
    assert [error["field"] for error in wrong["problem"]["errors"]] == ["to_users[0]"]
    assert [error["field"] for error in expired["problem"]["errors"]] == ["expires_at"]
    assert no_object["problem"]["errors"]
    assert [(send.send_id, send.to_users, send.chunk_count) for send in api.sends()] == [
        (ids(body)[0], [1, 2], 1),
        (ids(body)[1], [3], 1),
    ]
    assert api.producer.flushes == 1
    assert {send_id: accepted.users for send_id, accepted in api.register.sends.items()} == {
        ids(body)[0]: 2,
        ids(body)[1]: 1,
    }


@pytest.mark.guarantee("idempotency.request_is_replayed")
def test_a_repeated_batch_gets_the_first_results(api: SendApi) -> None:
    sends = [VALID, VALID | {"to_users": []}, VALID | {"expires_at": "2023-11-14T22:14:00Z"}]
    status, body, headers = post(api, *sends)
    assert body["accepted"] == 2
    api.clock.advance(3_600)
    assert post(api, *sends) == (status, body, {**headers, idempotency.REPLAYED: "true"})
    assert len(api.sends()) == 2


def test_batch_killed_between_its_sends_is_completed(api: SendApi) -> None:
    """Both attempts produce the same ids: a record that is on the topic twice is one chunk."""
    produced = iter(range(1))

    def fail(topic: str, _value: bytes | None) -> None:
        if topic == topics.SEND_API and next(produced, None) is None:
            raise Killed

    api.producer.fail = fail
    sends = [VALID | {"to_users": [user]} for user in (1, 2, 3)]
    with pytest.raises(Killed):
        post(api, *sends)
    assert post(api, *sends)[0] == 409
    api.producer.fail = lambda _topic, _value: None
    api.clock.advance(TIMEOUT_S)
    _, body, _ = post(api, *sends)
    assert {send.send_id: send.to_users for send in api.sends()} == dict(zip(ids(body), [[1], [2], [3]], strict=True))
    assert len({key for _, key, _, _ in api.producer.produced}) == 3


def test_a_send_without_acknowledgement_fails_the_batch(api: SendApi) -> None:
    refusals = iter([None, Retry("no leader")])
    api.producer.fail = lambda _topic, _value: next(refusals)
    status, _, headers = post(api, VALID, VALID)
    assert (status, headers["Retry-After"]) == (503, "5")
    api.producer.fail = lambda _topic, _value: None
    _, body, _ = post(api, VALID, VALID)
    assert {send.send_id for send in api.sends()} == set(ids(body))


def test_a_batch_needs_a_key(api: SendApi) -> None:
    status, body, _ = api.call(json.dumps({"sends": [VALID]}), path=PATH)
    assert (status, [error["field"] for error in body["errors"]]) == (400, [idempotency.KEY])
    assert api.producer.produced == []


def test_another_batch_under_a_key_is_422(api: SendApi) -> None:
    post(api, VALID)
    assert post(api, VALID, VALID)[0] == 422
    assert len(api.sends()) == 1


def test_sends_that_are_not_permitted_are_refused(api: SendApi) -> None:
    key = {"club_ids": "7", "scopes": "send"}
    _, body, _ = post(api, VALID | {"priority": "critical"}, VALID, authorizer=key)
    assert [result["status"] for result in body["results"]] == [403, 202]
    _, body, _ = post(api, VALID | {"club_id": 8}, authorizer=key)
    assert [result["status"] for result in body["results"]] == [403]
    assert [send.club_id for send in api.sends()] == [7]


@pytest.mark.guarantee("idempotency.batch_of_another_caller")
@pytest.mark.kills(guard="idempotency.stored_results")
def test_a_batch_of_another_caller_of_the_tenant_is_replayed(api: SendApi) -> None:
    """The callers differ in clubs and scopes. Each gets the first results, and each recipient is notified once."""
    sends = [VALID | {"priority": "critical"}, VALID, {"type": 1}]
    callers = [{"club_ids": "7", "scopes": "send"}, {"club_ids": "6,7", "scopes": "send send:critical"}]
    first, again = (post(api, *sends, authorizer=caller) for caller in callers)
    assert [result["status"] for result in first[1]["results"]] == [403, 202, 400]
    assert (again[1], again[2][idempotency.REPLAYED]) == (first[1], "true")
    assert len(api.sends()) == 1


@pytest.mark.kills(guard="idempotency.club_of_a_batch")
def test_a_batch_has_one_club(api: SendApi) -> None:
    """Callers who may send for different clubs would have different idempotency keys for it."""
    sends = [VALID, {"type": 1}, VALID | {"club_id": 8}, VALID | {"club_id": "x"}, VALID | {"club_id": 9}]
    status, problem, _ = post(api, *sends)
    assert (status, [error["field"] for error in problem["errors"]]) == (400, ["sends[2].club_id", "sends[4].club_id"])
    assert (api.producer.produced, api.keys.calls) == ([], 0)


def test_results_of_the_worst_batch_are_stored(api: SendApi) -> None:
    """Without the errors, which the first response has: names of random characters cannot be compressed."""
    random = Random(0)  # noqa: S311
    names = ("".join(chr(random.randrange(0x10000, 0x20000)) for _ in range(100)) for _ in range(5_000))
    worst = [VALID | dict.fromkeys(islice(names, 5), 1) for _ in range(BATCH_SENDS - 1)]
    first, again = (post(api, VALID, *worst)[1] for _ in range(2))
    assert again["results"][0] == first["results"][0]
    assert [result["status"] for result in again["results"]] == [result["status"] for result in first["results"]]
    assert again["results"][1]["problem"]["detail"] == "The first response has the errors."
    assert len(api.sends()) == 1


def test_a_small_batch_names_every_wrong_field(api: SendApi) -> None:
    unknown = {f"x{number}": 1 for number in range(8)}
    _, body, _ = post(api, VALID | unknown | {"type": 1, "to_users": ["x"] * 9, "send_at": "2001-01-01T00:00:00Z"})
    fields = [error["field"] for error in body["results"][0]["problem"]["errors"]]
    assert sorted(fields) == sorted([*unknown, "type", *(f"to_users[{index}]" for index in range(9)), "send_at"])


def test_errors_that_a_large_batch_leaves_out_are_counted(api: SendApi) -> None:
    _, body, _ = post(api, *[VALID | {"to_users": ["x"] * 9}] * BATCH_SENDS)
    errors = body["results"][0]["problem"]["errors"]
    assert (len(errors), errors[-1]) == (
        5,
        {
            "field": "",
            "message": "5 further errors are not listed",
            "code": "further_errors",
            "parameters": {"left_out": 5},
        },
    )


def test_a_batch_without_a_valid_send_uses_no_key(api: SendApi) -> None:
    _, body, _ = post(api, {"type": 1})
    assert (body["accepted"], api.keys.calls) == (0, 0)
    assert post(api, VALID)[1]["accepted"] == 1


@pytest.mark.parametrize(
    "body", [{}, {"sends": []}, {"sends": {}}, {"sends": [VALID], "x": 1}, {"sends": [VALID] * (BATCH_SENDS + 1)}]
)
def test_malformed_batch_is_refused(api: SendApi, body: dict[str, Any]) -> None:
    status, problem, _ = api.call(json.dumps(body), path=PATH, headers={idempotency.KEY: "k"})
    assert (status, bool(problem["errors"])) == (400, True)
    assert api.producer.produced == []


def test_a_send_in_a_batch_is_small(api: SendApi) -> None:
    _, body, _ = post(
        api, *[VALID | {"to_users": list(range(1, n + 1))} for n in (BATCH_RECIPIENTS, BATCH_RECIPIENTS + 1)]
    )
    assert [result["status"] for result in body["results"]] == [202, 400]


def test_the_largest_batch_is_accepted(api: SendApi) -> None:
    _, body, _ = post(api, *[VALID | {"to_users": [user]} for user in range(1, BATCH_SENDS + 1)])
    assert (body["accepted"], len(set(ids(body)))) == (BATCH_SENDS, BATCH_SENDS)
    assert len(api.sends()) == BATCH_SENDS


def test_response_to_the_worst_batch_fits_into_lambdas_limit(api: SendApi) -> None:
    """Each send has as many errors as are reported, with names in the characters that take the most bytes."""
    worst = VALID | {"to_users": ["x"] * BATCH_RECIPIENTS} | {"\U0001f600" * 200 + str(n): 1 for n in range(5)}
    _, body, _ = post(api, *[worst] * BATCH_SENDS)
    assert body["refused"] == BATCH_SENDS
    assert len(json.dumps(body, ensure_ascii=False).encode()) < 5_000_000
    names = {f"\U0001f600{n}" * 50: 1 for n in range(10)}
    _, body, _ = post(api, *[names] * BATCH_SENDS)
    assert len(json.dumps(body, ensure_ascii=False).encode()) < 5_000_000
