"""`masscomm upgrade` on real servers: each step lists pending changes, and makes them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
import pytest

from local.devstack.config import StackConfig
from local.devstack.provision import changed_topics, create_dynamodb_tables, create_topics, missing_dynamodb_tables
from local.devstack.upgrade import upgrade
from masscomm.kafka.topics import Compaction, chain_topics
from ops.provisioning import SCHEMAS, ProvisioningError
from ops.provisioning.database import TABLES, unapplied_tables
from ops.provisioning.directory import create_indices, outdated_indices
from ops.provisioning.registry import register_schemas, unregistered
from tests.support.servers.dynamodb_table import dynamodb
from tests.support.servers.metrics_database import metrics_database


class OneDatabase(StackConfig):
    """A stack whose metrics and monolith are one database."""

    url = ""

    def database_url(self, database: str) -> str:
        return self.url


@pytest.fixture
def installation(postgres: StackConfig) -> Iterator[StackConfig]:
    """A stack with tables, but without the digests of the files that made them."""
    with metrics_database(postgres) as url:
        made = OneDatabase(postgres.state_dir, postgres.ports)
        object.__setattr__(made, "url", url)
        yield made


def upgraded(config: StackConfig, *, check: bool = False) -> int:
    return upgrade(config, check=check, servers=("postgres",))


def test_upgrade_runs_once_and_then_needs_nothing(
    installation: StackConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    assert upgraded(installation, check=True) == 1
    assert "apply schemas/tables/01_counts.sql" in capsys.readouterr().out
    assert upgraded(installation, check=True) == 1
    assert upgraded(installation) == 0
    assert "tables: done" in capsys.readouterr().out
    assert upgraded(installation, check=True) == 0
    assert capsys.readouterr().out.splitlines() == ["tables: not needed", "monolith: not needed"]


@pytest.mark.kills(guard="upgrade.metrics_job")
def test_tables_are_not_changed_while_the_job_runs(installation: StackConfig) -> None:
    with psycopg.connect(installation.database_url("metrics"), application_name="spark_metrics lane"):
        assert upgraded(installation, check=True) == 1
        with pytest.raises(ProvisioningError, match="metrics job runs"):
            upgraded(installation)
    assert unapplied_tables(installation.database_url("metrics"))
    assert upgraded(installation) == 0


def test_changed_file_of_tables_is_pending_alone(installation: StackConfig) -> None:
    """A check takes no lock: it succeeds while all tables are locked."""
    upgraded(installation)
    url = installation.database_url("metrics")
    with psycopg.connect(url) as connection:
        connection.execute("update applied_files set digest = 'another' where name = '02_sends.sql'")
    with psycopg.connect(url) as connection:
        connection.execute("lock table counts_minute, sends, stream_status in access exclusive mode")
        assert unapplied_tables(url) == ["apply schemas/tables/02_sends.sql"]


def test_a_file_that_fails_stays_pending(
    installation: StackConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "99_wrong.sql"
    wrong.write_text("create table half (id int); select nothing")
    monkeypatch.setattr("ops.provisioning.database.TABLES", (*TABLES, wrong))
    with pytest.raises(psycopg.errors.UndefinedColumn):
        upgraded(installation)
    assert unapplied_tables(installation.database_url("metrics")) == ["apply schemas/tables/99_wrong.sql"]
    with psycopg.connect(installation.database_url("metrics")) as connection:
        assert connection.execute("select to_regclass('half')").fetchone() == (None,)


def test_missing_and_changed_topics_are_pending(kafka: StackConfig) -> None:
    name = f"upgrade-{uuid4().hex}"
    first = replace(chain_topics()[0], name=name, replication_factor=1, partitions=2, retention_hours=72)
    assert changed_topics(kafka.kafka_bootstrap, [first]) == [f"create the topic {name}"]
    create_topics(kafka.kafka_bootstrap, [first])
    assert changed_topics(kafka.kafka_bootstrap, [first]) == []
    longer = replace(first, partitions=3, retention_hours=96)
    assert changed_topics(kafka.kafka_bootstrap, [longer]) == [
        f"set retention.ms=345600000 of the topic {name}",
        f"give the topic {name} 3 partitions",
    ]
    create_topics(kafka.kafka_bootstrap, [longer])
    compaction = Compaction(segment_hours=24, due_hours=192, tombstone_hours=720)
    changelog = replace(longer, cleanup="compact", compaction=compaction)
    assert set(changed_topics(kafka.kafka_bootstrap, [changelog])) == {
        f"set {setting} of the topic {name}"
        for setting in (
            "cleanup.policy=compact",
            "min.compaction.lag.ms=345600000",
            "max.compaction.lag.ms=691200000",
            "segment.ms=86400000",
            "delete.retention.ms=2592000000",
        )
    }
    create_topics(kafka.kafka_bootstrap, [changelog])
    assert changed_topics(kafka.kafka_bootstrap, [changelog]) == []
    # A topic keeps its partitions: Kafka cannot remove one.
    assert changed_topics(kafka.kafka_bootstrap, [changelog, replace(changelog, partitions=1)]) == []


def test_changed_schema_is_pending(registry: StackConfig) -> None:
    [topic, *_] = [each for each in chain_topics() if each.schema == "SendRequested"]
    wanted = replace(topic, name=f"upgrade-{uuid4().hex}")
    assert unregistered(registry.registry_url, [wanted]) == [f"register SendRequested under {wanted.subject}"]
    earlier = '{"type": "record", "name": "SendRequested", "namespace": "masscomm", "fields": []}'
    httpx.post(
        f"{registry.registry_url}/subjects/{wanted.subject}/versions", json={"schema": earlier}
    ).raise_for_status()
    assert unregistered(registry.registry_url, [wanted]) == [f"register SendRequested under {wanted.subject}"]
    httpx.delete(f"{registry.registry_url}/subjects/{wanted.subject}").raise_for_status()
    register_schemas(registry.registry_url, [wanted])
    assert unregistered(registry.registry_url, [wanted]) == []


def test_missing_fields_of_an_index_are_pending(cluster: str) -> None:
    generation = f"t{uuid4().hex[:8]}"
    earlier = {"mappings": {"dynamic": "strict", "properties": {"club_id": {"type": "long"}}}}
    httpx.put(f"{cluster}/users-{generation}", json=earlier).raise_for_status()
    found = {line.partition(":")[0]: line for line in outdated_indices(cluster, generation)}
    assert f"create the index devices-{generation}" in found
    assert "email" in found[f"add to the index users-{generation}"]
    assert "club_id" not in found[f"add to the index users-{generation}"]
    create_indices(cluster, generation)
    assert outdated_indices(cluster, generation) == []


def test_an_index_is_added_to_a_table_of_dynamodb(localstack: StackConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    client, name = dynamodb(localstack), f"waiting-{uuid4().hex}"
    definition = json.loads((SCHEMAS / "dynamodb" / "waiting.json").read_text())
    definition["table"]["TableName"] = name
    indices = definition["table"].pop("GlobalSecondaryIndexes")
    keys = {each["AttributeName"] for each in definition["table"]["KeySchema"]}
    attributes = definition["table"]["AttributeDefinitions"]
    definition["table"]["AttributeDefinitions"] = [each for each in attributes if each["AttributeName"] in keys]
    monkeypatch.setattr("local.devstack.provision._dynamodb_definitions", lambda: [definition])
    assert missing_dynamodb_tables(client) == [f"create the table {name}"]
    create_dynamodb_tables(client)
    definition["table"] |= {"GlobalSecondaryIndexes": indices, "AttributeDefinitions": attributes}
    assert missing_dynamodb_tables(client) == [f"add the index by_send to {name}"]
    create_dynamodb_tables(client)
    assert missing_dynamodb_tables(client) == []
    [index] = client.describe_table(TableName=name)["Table"]["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["IndexStatus"]) == ("by_send", "ACTIVE")
