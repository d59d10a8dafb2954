"""The service on the real broker: it is fed, continues after a kill, and refuses look-ups until it has caught up."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from directory_state.feed import Feeder, GapError
from directory_state.snapshots import Snapshots
from directory_state.store import Store, prepare
from local.devstack.config import StackConfig
from masscomm.directory.port import MembersCount
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import logs
from tests.support.contracts.directory import EVERYBODY
from tests.support.inputs.debezium_records import heartbeat, notification, row
from tests.support.servers.directory_state_process import Changelogs, StateProcess, free_port
from tests.support.servers.moto import served_by_moto
from tests.support.until import until

USERS = 400
REGION = "eu-central-1"
# The database's time of the heartbeats, in seconds since the epoch.
FIRST_S, SECOND_S = 1_700_000_000, 1_700_000_100


def user(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "club_id": 7, "first_name": name, "time_zone": None}


def snapshot() -> Iterator[KafkaRecord]:
    yield notification("STARTED")
    for number in range(USERS):
        yield row("users", "r", 10, user(number, "first"))
    yield notification("COMPLETED")
    yield heartbeat(20, str(FIRST_S))


@pytest.fixture
def changelogs(kafka: StackConfig) -> Changelogs:
    return Changelogs(kafka.kafka_bootstrap)


@pytest.fixture
def service(
    kafka: StackConfig, registry: StackConfig, changelogs: Changelogs, tmp_path: Path
) -> Iterator[StateProcess]:
    made = StateProcess(registry, changelogs, tmp_path / "state", port=free_port(), feeders=2)
    yield made
    made.stop()


def names(service: StateProcess) -> set[str]:
    found = service.directory().users(range(USERS))
    assert len(found) == USERS
    return {user.first_name for user in found.values()}


def is_confirmed(service: StateProcess, ts_ms: int) -> bool:
    with suppress(Retry):
        service.directory().confirm(ts_ms)
        return True
    return False


@pytest.mark.guarantee("directory_state.continues")
def test_killed_service_continues_without_a_gap(changelogs: Changelogs, service: StateProcess) -> None:
    changelogs.produce(snapshot())
    service.start()
    directory = service.directory(wait_s=lambda: 0.2)
    # Until Connect has stored an offset, rows of the snapshot may be on their way to Kafka.
    with pytest.raises(Retry, match="not ready"):
        directory.users([1])
    changelogs.acknowledge(20)
    until("the snapshot can be looked up", lambda: is_confirmed(service, FIRST_S * 1_000))
    assert names(service) == {"first"}
    service.kill()
    changelogs.produce(row("users", "u", 30 + number, user(number, "second")) for number in range(USERS))
    changelogs.produce([heartbeat(1_000, str(SECOND_S))])
    changelogs.acknowledge(1_000)
    service.start()
    until("the changes can be looked up", lambda: is_confirmed(service, SECOND_S * 1_000))
    assert names(service) == {"second"}


def test_service_ends_with_a_killed_feeder(changelogs: Changelogs, service: StateProcess) -> None:
    changelogs.produce(snapshot())
    changelogs.acknowledge(20)
    service.start()
    until("the snapshot can be looked up", lambda: is_confirmed(service, FIRST_S * 1_000))
    _, feeder, *_ = service.processes()
    feeder.kill()
    assert service.wait() != 0
    service.start()
    until("the snapshot can be looked up again", lambda: is_confirmed(service, FIRST_S * 1_000))
    assert names(service) == {"first"}


def counted(service: StateProcess) -> MembersCount | None:
    """Return the count of all users; None if the service does not count now."""
    with suppress(Retry):
        (found,) = service.directory().count_members(7, EVERYBODY, ["push"])
        return found
    return None


@pytest.mark.nightly
def test_new_task_begins_with_the_snapshot(
    registry: StackConfig, changelogs: Changelogs, service: StateProcess, tmp_path: Path
) -> None:
    changelogs.produce(snapshot())
    changelogs.acknowledge(20)
    service.start()
    until("the snapshot can be looked up", lambda: is_confirmed(service, FIRST_S * 1_000))
    service.stop()
    with mock_aws(), served_by_moto("s3", REGION) as s3:
        client = boto3.client("s3", REGION)
        client.create_bucket(Bucket="snapshots", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        store = Store(service.folder, writes=False)
        assert Snapshots(client, "snapshots").keep(store, tmp_path / "copy")
        store.close()
        changelogs.produce(row("users", "u", 30 + number, user(number, "second")) for number in range(USERS))
        changelogs.produce([heartbeat(1_000, str(SECOND_S))])
        changelogs.acknowledge(1_000)
        variables = {
            "DIRECTORY_STATE_SNAPSHOTS": "snapshots",
            "AWS_ENDPOINT_URL_S3": s3,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": REGION,
        }
        new = StateProcess(registry, changelogs, tmp_path / "new", port=free_port(), snapshots=variables)
        new.start()
        until("the changes can be looked up", lambda: is_confirmed(new, SECOND_S * 1_000))
        assert new.has_logged("the store begins with a snapshot")
        assert names(new) == {"second"}
        new.stop()


@pytest.mark.guarantee("directory_state.audiences_apart")
def test_audiences_are_compared_in_a_process_of_their_own(changelogs: Changelogs, service: StateProcess) -> None:
    changelogs.produce(snapshot())
    changelogs.acknowledge(20)
    service.start()
    until("the snapshot can be looked up", lambda: is_confirmed(service, FIRST_S * 1_000))
    # An audience has no user 0.
    everybody = MembersCount(USERS - 1, USERS - 1, {"push": 0})
    until("the users are counted", lambda: counted(service) == everybody)
    process = service.audience_process()
    process.kill()
    assert names(service) == {"first"}
    until("the users are counted by another process", lambda: counted(service) == everybody)
    *_, server = service.processes()
    process = service.audience_process()
    server.kill()
    assert service.wait() != 0
    process.wait(30)


@pytest.mark.kills(guard="directory_state.gap")
def test_gap_ends_the_feeder(kafka: StackConfig, registry: StackConfig, changelogs: Changelogs, tmp_path: Path) -> None:
    """Records that the store has not applied may be gone: the service then reads the topics from their beginning."""
    prepare(tmp_path / "state", generations=[changelogs.generation], topic_ids={}, now_ms=0)
    store = Store(tmp_path / "state", writes=True)
    with store.writing() as writer:
        writer.set_offset(topics.cdc_topic("users", changelogs.generation), 0, 10**6)
    feeder = Feeder(
        store,
        {"bootstrap.servers": kafka.kafka_bootstrap},
        generations=[changelogs.generation],
        codec=Codec(HttpSchemaRegistry(registry.registry_url)),
        share=(0, 1),
        logger=logs.logger("directory_state"),
    )
    deadline = time.monotonic() + 20
    with pytest.raises(GapError):
        feeder.run(lambda: time.monotonic() > deadline)
    store.close()
