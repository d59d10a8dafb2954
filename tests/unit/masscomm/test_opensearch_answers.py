"""Incomplete or unexpected responses of OpenSearch: each is a Retry and never counts as "not found"."""

from typing import Any, cast

import pytest

from masscomm.cdc.progress import InMemoryCdcProgress, lsn_of_source_offset, reached
from masscomm.clock import FixedClock
from masscomm.directory.bulk_writes import VersionedDocument, write
from masscomm.directory.client import (
    AuthorizationException,
    ConnectionError,
    NotFoundError,
    OpenSearch,
    SerializationError,
    TransportError,
)
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.domain.users import Device
from masscomm.errors import DeadLetter, Retry, Stop, Unlisted


class StoredDevice:
    """A client with one device; without `state`, the device has no state yet."""

    def __init__(self, platform: str, state: dict[str, Any] | None = None) -> None:
        self._row = {"id": 1, "user_id": 1, "platform": platform, "token": "a"}
        self._state = {"found": False} if state is None else {"found": True, "_version": 1, "_source": state}

    def search(self, **_: Any) -> Any:
        return searched(hits={"hits": [{"_index": "devices-g1", "_id": "1", "_source": self._row, "sort": [1]}]})

    def mget(self, **_: Any) -> Any:
        return {"docs": [{"_index": "device_state", "_id": "1", **self._state}]}


class Answering:
    """A client that returns or raises one prepared response."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def mget(self, **_: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    search = bulk = mget


def directory(answer: Any) -> OpenSearchDirectory:
    return OpenSearchDirectory(
        cast(OpenSearch, Answering(answer)), progress=lambda _: InMemoryCdcProgress(), clock=FixedClock()
    )


def found(name: str, **changes: Any) -> dict[str, Any]:
    return {"_index": "users-g1", "_id": name, "_version": 5, "found": True, "_source": {"club_id": 1}, **changes}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"docs": None},
        {"docs": []},
        {"docs": [found("1")]},
        {"docs": [found("2"), found("1")]},
        {"docs": [found("1"), None]},
        {"docs": [found("1"), {"_id": "2"}]},
        {"docs": [found("1"), found("2", _source=None)]},
        {"docs": [found("1"), found("2", _version=None)]},
        {"docs": [found("1"), {"_id": "2", "error": {"type": "index_not_found_exception"}}]},
        {"docs": [found("1"), {"_id": "2", "found": False, "error": {"type": "no_shard_available_action_exception"}}]},
        {"docs": [found("1"), {"_id": "2", "error": None}]},
    ],
)
def test_incomplete_look_up_by_id_is_a_retry(answer: Any) -> None:
    with pytest.raises(Retry):
        directory(answer).users([1, 2])


def searched(**changes: Any) -> dict[str, Any]:
    return {"timed_out": False, "_shards": {"failed": 0}, "hits": {"hits": []}, **changes}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        searched(timed_out=True),
        searched(_shards={"failed": 1}),
        searched(_shards={}),
        searched(hits=None),
        searched(hits={"hits": None}),
    ],
)
def test_incomplete_search_is_a_retry(answer: Any) -> None:
    with pytest.raises(Retry):
        directory(answer).devices([1])
    with pytest.raises(Retry):
        directory(answer).templates([(1, "news", "push")])


@pytest.mark.guarantee("opensearch_answer.unavailable")
@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("refused"),
        SerializationError("half an answer"),
        NotFoundError(404, "index_not_found_exception", {}),
        TransportError(429, "busy"),
        TransportError(500, "broken"),
        TransportError(503, "starting"),
    ],
)
def test_temporary_errors_are_a_retry(error: Exception) -> None:
    with pytest.raises(Retry):
        directory(error).users([1])
    with pytest.raises(Retry):
        directory(error).devices([1])
    document = VersionedDocument(index="i", id="1", version=1, source={})
    assert [type(fate) for fate in write(cast(OpenSearch, Answering(error)), [document])] == [Retry]


class RefusingOneId:
    """A server that refuses a whole bulk request for one document in it, as OpenSearch does for a long id."""

    def bulk(self, *, body: bytes) -> Any:
        lines = body.splitlines()
        if b"x" * 513 in body:
            kind = "action_request_validation_exception"
            raise TransportError(400, kind, {"error": {"type": kind}})
        return {"items": [{"index": {"status": 200}}] * (len(lines) // 2)}


@pytest.mark.guarantee("opensearch_answer.request_too_large")
@pytest.mark.kills(guard="opensearch.refused_document")
def test_one_refused_document_costs_no_other() -> None:
    names = ["1", "2", "x" * 513, "3", "4"]
    documents = [VersionedDocument(index="i", id=name, version=1, source={}) for name in names]
    fates = write(cast(OpenSearch, RefusingOneId()), documents)
    assert [type(fate) for fate in fates] == [type(None), type(None), DeadLetter, type(None), type(None)]


@pytest.mark.kills(guard="opensearch.wrong_address")
def test_wrong_address_dead_letters_no_document() -> None:
    refused = TransportError(
        400, "no handler found", {"error": "no handler found for uri [/x/_bulk] and method [POST]"}
    )
    document = VersionedDocument(index="i", id="1", version=1, source={})
    with pytest.raises(TransportError):
        write(cast(OpenSearch, Answering(refused)), [document])


@pytest.mark.guarantee("opensearch_answer.access_refused")
def test_denied_access_is_a_stop() -> None:
    with pytest.raises(Stop):
        directory(AuthorizationException(403, "no")).users([1])


@pytest.mark.guarantee("opensearch_answer.unlisted")
@pytest.mark.kills(guard="opensearch.unlisted_status")
def test_each_item_of_a_bulk_request_has_its_own_fate() -> None:
    statuses = [200, 201, 409, 400, 403, 404, 429, 503, None, 500, 418]
    answer = {"errors": True, "items": [{"index": {"status": status, "error": {}}} for status in statuses]}
    documents = [VersionedDocument(index="i", id=str(n), version=1, source={}) for n in range(len(statuses))]
    fates = write(cast(OpenSearch, Answering(answer)), documents)
    assert [None if fate is None else type(fate) for fate in fates] == (
        [None] * 3 + [DeadLetter] + [Retry] * 5 + [Unlisted] * 2
    )


@pytest.mark.parametrize("answer", [None, {}, {"items": []}, {"items": [{}, {}]}])
def test_inconsistent_bulk_response_is_a_failure(answer: Any) -> None:
    document = VersionedDocument(index="i", id="1", version=1, source={})
    assert [type(fate) for fate in write(cast(OpenSearch, Answering(answer)), [document])] == [Retry]


def test_bulk_requests_are_bounded_in_bytes() -> None:
    sizes = []

    class Counting(Answering):
        def bulk(self, **request: Any) -> Any:
            body = request["body"]
            sizes.append(len(body))
            return {"items": [{"index": {"status": 200}}] * (body.count(b"\n") // 2)}

    documents = [VersionedDocument(index="i", id=str(n), version=1, source={"a": "x" * 400_000}) for n in range(40)]
    assert write(cast(OpenSearch, Counting(None)), documents) == [None] * 40
    assert len(sizes) == 4
    assert max(sizes) < 5_000_000


def test_targets_are_reached_only_with_every_partition() -> None:
    assert reached({}, {"a": {0: 0}})
    assert not reached({}, {"a": {0: 1}})
    assert reached({"a": {0: 5, 1: 9}}, {"a": {0: 5}})
    assert not reached({"a": {0: 5, 1: 8}}, {"a": {0: 5, 1: 9}})


@pytest.mark.parametrize(
    ("offset", "lsn"),
    [
        ({}, None),
        (None, None),
        ({"snapshot": "INITIAL", "snapshot_completed": False, "lsn": 5}, None),
        ({"lsn": 5, "txId": 1, "ts_usec": 1}, 5),
        ({"lsn": 7, "lsn_proc": 7, "lsn_commit": 7, "messageType": "MESSAGE"}, 7),
    ],
)
def test_snapshot_source_offset_has_no_lsn(offset: Any, lsn: int | None) -> None:
    assert lsn_of_source_offset(offset) == lsn


@pytest.mark.kills(guard="devices.platform_of_row")
@pytest.mark.parametrize(("word", "platform"), [("iOS", "apns"), ("fcm ", "gcm"), ("windows", "windows")])
def test_devices_have_the_platform_that_their_word_names(word: str, platform: str) -> None:
    assert device_in(StoredDevice(word)).platform == platform


@pytest.mark.guarantee("push.platform_of_the_endpoint")
@pytest.mark.kills(guard="devices.endpoint_of_platform")
@pytest.mark.parametrize(
    ("word", "application", "enabled"),
    [
        ("android", "GCM", False),
        ("ios", "APNS_SANDBOX", False),
        ("ios", "GCM", True),
        ("android", "APNS", True),
        ("android", "ADM", True),
    ],
)
def test_endpoint_of_another_platform_is_not_used(word: str, application: str, enabled: bool) -> None:
    """The device waits for the endpoint of its own platform as a new device does."""
    arn = f"arn:aws:sns:eu-central-1:000000000000:endpoint/{application}/app/1"
    device = device_in(StoredDevice(word, {"token": "a", "endpoint_arn": arn, "enabled": False, "generation": "g1"}))
    assert (device.endpoint_arn, device.enabled) == (None if enabled else arn, enabled)


def device_in(client: StoredDevice) -> Device:
    stored = OpenSearchDirectory(cast(OpenSearch, client), progress=lambda _: InMemoryCdcProgress(), clock=FixedClock())
    (device,) = stored.devices([1])[1]
    return device
