"""The job that erases a person: how it is started, and the permissions of its role."""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from io import StringIO
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra.cdk.profiles import ERASURE_REQUESTS
from infra.erase import erase
from masscomm.directory.client import OpenSearch
from masscomm.errors import Stop
from ops.erasure.__main__ import addresses_of
from ops.erasure.person import Person
from ops.erasure.search_indices import SearchIndices

REQUEST = {
    "applicationId": "app",
    "name": "masscomm-prod-erasure",
    "jobDriver": {"sparkSubmit": {"entryPoint": "s3://code/__main__.py", "entryPointArguments": []}},
}


class Emr:
    """A fake of boto3's clients of Systems Manager and EMR Serverless. states: the results of GetJobRun, in order."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.started: list[dict[str, Any]] = []

    def __call__(self, _: str) -> "Emr":
        return self

    def get_parameter(self, *, Name: str) -> dict[str, Any]:
        assert Name == "/masscomm-prod/erase-job"
        return {"Parameter": {"Value": json.dumps(REQUEST)}}

    def start_job_run(self, **request: Any) -> dict[str, Any]:
        self.started.append(request)
        return {"jobRunId": "run-1"}

    def get_job_run(self, **run: str) -> dict[str, Any]:
        assert run == {"applicationId": "app", "jobRunId": "run-1"}
        return {"jobRun": {"state": self.states.pop(0)}}


@pytest.mark.parametrize("end", ["SUCCESS", "FAILED", "CANCELLED"])
def test_run_is_started_with_the_person_and_awaited(end: str) -> None:
    emr, pauses = Emr("SUBMITTED", "RUNNING", end), list[float]()
    assert erase(emr, "masscomm-prod", ["--user=7", "--club=3"], pauses.append) == ("run-1", end)
    [request] = emr.started
    assert request["jobDriver"]["sparkSubmit"]["entryPointArguments"] == ["--user=7", "--club=3"]
    assert request["clientToken"]
    assert len(pauses) == 2


class Secrets(Emr):
    """Also Secrets Manager."""

    def __init__(self, *states: str) -> None:
        super().__init__(*states)
        self.secrets: dict[str, str] = {}
        self.read = ""

    def create_secret(self, *, Name: str, SecretString: str, Description: str) -> None:
        assert "@" not in Name + Description
        self.secrets[Name] = SecretString

    def delete_secret(self, *, SecretId: str, ForceDeleteWithoutRecovery: bool) -> None:
        assert ForceDeleteWithoutRecovery
        self.read = self.secrets.pop(SecretId)


@pytest.mark.parametrize("end", ["SUCCESS", "FAILED", "lost"])
def test_addresses_are_in_a_secret_until_the_run_has_ended(end: str) -> None:
    """Arguments of a run are listed: https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_GetJobRun.html"""
    aws = Secrets("RUNNING", *([end] if end != "lost" else []))
    addresses = ["ada@example.org", "countess@example.org"]
    started = partial(erase, aws, "masscomm-prod", ["--user=7", "--club=3"], lambda _: None, addresses)
    if end == "lost":
        with pytest.raises(IndexError):
            started()
    else:
        assert started() == ("run-1", end)
    [request] = aws.started
    assert "@" not in json.dumps(request)
    [*person, named] = request["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    assert person == ["--user=7", "--club=3"]
    assert named.startswith("--addresses=masscomm-prod/erased-addresses/")
    assert aws.secrets == {}
    assert aws.read.splitlines() == addresses


def test_addresses_are_read_from_a_secret_or_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setattr("sys.stdin", StringIO("ada@example.org\nb@example.org"))
    with mock_aws():
        boto3.client("secretsmanager", "eu-central-1").create_secret(Name="a/b", SecretString="c@example.org")
        assert addresses_of("a/b") == ["c@example.org"]
        with pytest.raises(Stop, match="cannot be read"):
            addresses_of("a/missing")
    assert addresses_of("-") == ["ada@example.org", "b@example.org"]
    assert addresses_of(None) == []


class Recording:
    """OpenSearch with a device state and a message; requests: the received requests as `VERB path`."""

    def __init__(self) -> None:
        self.requests: set[str] = set()

    def request(self, method: str, path: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        self.requests.add(f"{method} {path}")
        if path == "_bulk":
            return {"items": [{"index": {"status": 200}}] * body.count(b'{"index"')}
        first = params is not None and "scroll" in params
        outcome = {"club_id": 3, "user_ids": [7]}
        source = {"user_id": 7, "token": "t", "endpoint_arn": "arn:1", "enabled": True, "outcome": outcome}
        hits = (
            [
                {
                    "_index": path.split("/")[0],
                    "_id": "70",
                    "_version": 1,
                    "_seq_no": 0,
                    "_primary_term": 1,
                    "_source": source,
                }
            ]
            if first
            else []
        )
        return {"timed_out": False, "_shards": {"failed": 0}, "hits": {"hits": hits}, "_scroll_id": "next"}


class Endpoints:
    def delete_endpoint(self, *, EndpointArn: str) -> None:
        assert EndpointArn


def test_erasure_role_allows_each_request_of_erasure() -> None:
    client, recording = OpenSearch("http://localhost:1"), Recording()
    client.request = recording.request  # type: ignore[method-assign]
    indices = SearchIndices(client, Endpoints())
    person = Person(user_id=7, club_id=3, addresses={"ada@example.org"})
    indices.learn(person)
    steps = (indices.erase_messages, indices.erase_endpoints, indices.erase_suppressions, indices.erase_rows)
    for step in (*steps, indices.erase_preference_changes):
        step(person)
    unmatched = {
        each for each in recording.requests if not any(fnmatchcase(each, allowed) for allowed in ERASURE_REQUESTS)
    }
    assert len(recording.requests) > 10
    assert unmatched == set()
    unasked = {
        each for each in ERASURE_REQUESTS if not any(fnmatchcase(request, each) for request in recording.requests)
    }
    assert unasked == set()
