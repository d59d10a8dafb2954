"""Each send that is requested over REST is in the audit log, with its principal."""

import json

import pytest

from masscomm.errors import Retry
from tests.support.harness.send_api import VALID, SendApi

KEY = {"principalId": "k1", "club_ids": "7", "scopes": "send"}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> SendApi:
    return SendApi(monkeypatch)


@pytest.mark.guarantee("audit.requested_send")
@pytest.mark.kills(guard="audit.requested_send")
def test_a_send_is_audited_with_its_principal(api: SendApi) -> None:
    status, body, _ = api.call(json.dumps(VALID), authorizer=KEY)
    assert status == 202
    (entry,) = api.audit_log.entries
    assert (entry.principal, entry.action, entry.subject, entry.club_id, entry.result) == (
        "k1",
        "send.requested",
        body["send_id"],
        7,
        "ok",
    )
    assert entry.detail == "news, 3 recipients"
    assert [send.principal for send in api.sends()] == ["k1"]


def test_a_failed_send_is_audited_as_failed(api: SendApi) -> None:
    """Some of its chunks may be on Kafka."""
    api.producer.fail = lambda _topic, _value: Retry("Kafka is away")
    assert api.call(json.dumps(VALID), authorizer=KEY)[0] == 503
    assert [entry.result for entry in api.audit_log.entries] == ["failed"]


def test_a_refused_or_replayed_request_is_not_audited(api: SendApi) -> None:
    assert api.call(json.dumps(VALID | {"club_id": 8}), authorizer=KEY)[0] == 403
    headers = {"Idempotency-Key": "a"}
    assert [api.call(json.dumps(VALID), authorizer=KEY, headers=headers)[0] for _ in range(2)] == [202, 202]
    assert len(api.audit_log.entries) == 1


def test_a_batch_has_one_entry_in_the_log_of_its_club(api: SendApi) -> None:
    body = {"sends": [VALID, {"type": 1}, VALID | {"to_users": [5, 5]}]}
    headers = {"Idempotency-Key": "a"}
    status, _, _ = api.call(json.dumps(body), path="/v1/sends/batch", authorizer=KEY, headers=headers)
    assert status == 200
    assert [(entry.club_id, entry.detail) for entry in api.audit_log.entries] == [(7, "2 sends, 4 recipients")]
    assert {send.principal for send in api.sends()} == {"k1"}


@pytest.mark.guarantee("audit.store_down_is_logged")
def test_without_the_audit_log_the_entry_is_logged(api: SendApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.audit_log.failing = Retry("DynamoDB is away")
    status, body, _ = api.call(json.dumps(VALID), authorizer=KEY)
    assert status == 202
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (line,) = [line for line in lines if line.get("level") == "ERROR"]
    assert (line["principal"], line["subject"], line["action"]) == ("k1", body["send_id"], "send.requested")
