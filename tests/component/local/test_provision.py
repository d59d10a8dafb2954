"""Provisioning of real servers can be repeated without changes, and Debezium writes the documented records."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from psycopg import sql

from local.devstack.config import StackConfig, connector_name
from local.devstack.provision import (
    MONOLITH_MIGRATION,
    SCHEMAS,
    ProvisioningError,
    apply_sql,
    changed_connector,
    create_indices,
    create_topics,
    put_connector,
    register_schemas,
)
from masscomm.cdc.captured_tables import captured_tables
from masscomm.kafka.topics import Topic, cdc_topic, cdc_topics, chain_topics


@pytest.fixture
def generation() -> str:
    """A generation whose name has only small letters and digits, because Debezium's slot has the same name."""
    return f"t{uuid4().hex[:8]}"


@pytest.fixture
def monolith(connect: StackConfig, generation: str) -> Iterator[str]:
    name = f"monolith_{generation}"
    with psycopg.connect(connect.database_url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = connect.database_url(name)
    apply_sql(url, [MONOLITH_MIGRATION])
    yield url
    httpx.delete(f"{connect.connect_url}/connectors/{connector_name(generation)}", timeout=30)


def read_until(bootstrap: str, topic: str, enough: Callable[[list[Any]], bool], timeout_s: float = 60) -> list[Any]:
    """The JSON values of a topic from its beginning, read until `enough` returns true."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid4().hex, "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        values: list[Any] = []
        deadline = time.monotonic() + timeout_s
        while not enough(values):
            assert time.monotonic() < deadline, f"{topic} held only {values[-3:]} after {timeout_s} s"
            for message in consumer.consume(100, timeout=0.5):
                assert message.error() is None
                values.append(json.loads(message.value() or b"null"))
        return values
    finally:
        consumer.close()


def topic(name: str, **changes: Any) -> Topic:
    """Return a topic's definition with these changes."""
    values: dict[str, Any] = {
        "name": name,
        "description": "",
        "owner": "",
        "schema": "SendRequested",
        "partitions": 3,
        "retention_hours": 5,
        "cleanup": "delete",
        "max_message_bytes": 700_000,
        "timestamp_ahead_ms": 60_000,
        "replication_factor": 1,
        "producers": (),
        "consumers": (),
    }
    return Topic(**(values | changes))


def test_topics_are_created_once_with_their_config(kafka: StackConfig) -> None:
    wanted = topic(f"provision-{uuid4().hex}")
    create_topics(kafka.kafka_bootstrap, [wanted])
    create_topics(kafka.kafka_bootstrap, [wanted])
    resource = ConfigResource(ResourceType.TOPIC, wanted.name)
    with AdminClient({"bootstrap.servers": kafka.kafka_bootstrap}) as admin:
        assert len(admin.list_topics(timeout=10).topics[wanted.name].partitions) == 3
        config = admin.describe_configs([resource])[resource].result(10)
    assert config["retention.ms"].value == str(5 * 3_600_000)
    assert config["max.message.bytes"].value == "700000"
    assert config["cleanup.policy"].value == "delete"
    assert config["message.timestamp.after.max.ms"].value == "60000"


def test_unknown_topic_is_not_created_by_its_use(kafka: StackConfig) -> None:
    name = f"misspelt-{uuid4().hex}"
    with AdminClient({"bootstrap.servers": kafka.kafka_bootstrap, "allow.auto.create.topics": True}) as admin:
        admin.list_topics(name, timeout=10)
        assert name not in admin.list_topics(timeout=10).topics


def test_schemas_are_registered_once_and_kept_compatible(registry: StackConfig) -> None:
    wanted = [topic(f"{uuid4().hex}.{each.name}", schema=each.schema) for each in chain_topics()]
    first = register_schemas(registry.registry_url, wanted)
    assert register_schemas(registry.registry_url, wanted) == first
    assert set(first) == {each.subject for each in wanted if each.schema}
    breaking = {"type": "record", "name": "Other", "fields": [{"name": "added", "type": "string"}]}
    answer = httpx.post(
        f"{registry.registry_url}/subjects/{next(iter(first))}/versions", json={"schema": json.dumps(breaking)}
    )
    assert answer.status_code == 409


def test_concurrent_registrations_get_the_same_schema_ids(registry: StackConfig) -> None:
    many = 6
    for _ in range(5):
        wanted = [topic(f"{uuid4().hex}.{each.name}", schema=each.schema) for each in chain_topics()]
        together = threading.Barrier(many)

        def asked(wanted: list[Topic] = wanted, together: threading.Barrier = together) -> dict[str, int]:
            together.wait(30)
            return register_schemas(registry.registry_url, wanted)

        with ThreadPoolExecutor(many) as pool:
            first, *others = [each.result() for each in [pool.submit(asked) for _ in range(many)]]
        assert all(other == first for other in others)


def test_a_registry_that_refuses_is_an_error(registry: StackConfig) -> None:
    wanted = topic(uuid4().hex, schema="SendRequested")
    other = {"type": "record", "name": "Other", "fields": [{"name": "added", "type": "string"}]}
    base = registry.registry_url
    httpx.post(f"{base}/subjects/{wanted.subject}/versions", json={"schema": json.dumps(other)}).raise_for_status()
    httpx.put(f"{base}/config/{wanted.subject}", json={"compatibility": "BACKWARD"}).raise_for_status()
    with pytest.raises(ProvisioningError, match=wanted.subject):
        register_schemas(base, [wanted])


def test_indices_are_created_once_and_never_implicitly(cluster: str, generation: str) -> None:
    names = create_indices(cluster, generation)
    assert {f"{table}-{generation}" for table in captured_tables()} < set(names)
    assert {"device_state", "directory_state"} < set(names)
    url = f"{cluster}/users-{generation}"
    httpx.put(f"{url}/_doc/1", json={"club_id": 1}).raise_for_status()
    assert create_indices(cluster, generation) == names
    assert httpx.get(f"{url}/_doc/1").json()["found"]
    # Provisioning sets no alias, since only cdc_consumer moves aliases.
    assert httpx.get(f"{url}/_alias").json() == {f"users-{generation}": {"aliases": {}}}
    assert httpx.put(f"{cluster}/nobodys-{generation}/_doc/1", json={}).status_code == 404


def test_an_index_of_an_earlier_version_gets_new_fields(cluster: str, generation: str) -> None:
    url = f"{cluster}/users-{generation}"
    earlier = {"mappings": {"dynamic": "strict", "properties": {"club_id": {"type": "long"}}}}
    httpx.put(url, json=earlier).raise_for_status()
    httpx.put(f"{url}/_doc/1", json={"club_id": 1}).raise_for_status()
    create_indices(cluster, generation)
    assert httpx.put(f"{url}/_doc/2", json={"club_id": 1, "email": "a@b.example"}).status_code == 201
    assert httpx.get(f"{url}/_doc/1").json()["found"]


def test_an_index_that_cannot_be_changed_so_is_named(cluster: str, generation: str) -> None:
    other = {"mappings": {"properties": {"email": {"type": "long"}}}}
    httpx.put(f"{cluster}/users-{generation}", json=other).raise_for_status()
    with pytest.raises(ProvisioningError, match=f"users-{generation}"):
        create_indices(cluster, generation)


def test_debezium_sends_rows_heartbeats_and_snapshot_end(connect: StackConfig, monolith: str, generation: str) -> None:
    create_topics(connect.kafka_bootstrap, cdc_topics(generation))
    with psycopg.connect(monolith) as connection:
        connection.execute("INSERT INTO clubs (id, name) VALUES (1, 'A')")
        connection.execute("INSERT INTO users (id, club_id, first_name, last_name) VALUES (7, 1, 'Ada', 'Abel')")
    name = connector_name(generation)
    assert changed_connector(connect.connect_url, generation, monolith) == [f"create the connector {name}"]
    put_connector(connect.connect_url, generation, monolith)
    assert changed_connector(connect.connect_url, generation, monolith) == []
    put_connector(connect.connect_url, generation, monolith)
    [change] = changed_connector(connect.connect_url, generation, f"{monolith}_moved")
    assert change == f"configure the connector {name}: database.dbname"
    bootstrap = connect.kafka_bootstrap

    rows = read_until(bootstrap, cdc_topic("users", generation), lambda values: len(values) >= 1)
    assert (rows[0]["op"], rows[0]["after"]["first_name"]) == ("r", "Ada")

    def completed(values: list[Any]) -> bool:
        return any(each["aggregate_type"] == "Initial Snapshot" and each["type"] == "COMPLETED" for each in values)

    notifications = read_until(bootstrap, cdc_topic("notification", generation), completed)

    # Heartbeats arrive without any change of a table, each with a later position in the WAL.
    beats = read_until(bootstrap, cdc_topic("heartbeat", generation), lambda values: len(values) >= 3)
    assert all(each["op"] == "m" and each["message"]["prefix"] == "masscomm.heartbeat" for each in beats)
    positions = [each["source"]["lsn"] for each in beats]
    assert positions == sorted(set(positions))

    with psycopg.connect(monolith) as connection:
        connection.execute("UPDATE users SET locale = 'de' WHERE id = 7")
    with psycopg.connect(monolith) as connection:
        connection.execute("DELETE FROM users WHERE id = 7")
    rows = read_until(bootstrap, cdc_topic("users", generation), lambda values: len(values) >= 4)
    assert [each["op"] if each else None for each in rows] == ["r", "u", "d", None]
    assert rows[1]["before"]["locale"] == "en"
    assert rows[2]["before"]["first_name"] == "Ada"
    assert rows[1]["source"]["lsn"] > positions[0]

    # The documented examples in schemas/cdc_examples have the same fields as Debezium's records.
    for name, sent in (("users", rows), ("message", beats), ("notification", notifications)):
        assert shapes(sent) == shapes(json.loads((SCHEMAS / "cdc_examples" / f"{name}.json").read_text())), name


def shapes(values: list[Any]) -> set[str]:
    """The distinct sets of fields, nested ones included, of JSON values; a null is a field without nested ones."""

    def fields(value: Any, path: str = "") -> list[str]:
        if isinstance(value, dict):
            return [each for name, inner in value.items() for each in fields(inner, f"{path}.{name}")]
        return [path]

    return {" ".join(sorted(fields(value))) for value in values}
