"""After a snapshot with a concurrent stream of the real Debezium, the directory equals the tables."""

import json
import threading
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition

from local.devstack.config import StackConfig
from masscomm.cdc.change_events import RowChanged
from masscomm.errors import Retry
from masscomm.kafka.topics import cdc_topic
from tests.support.harness.change_data_capture import RunningGeneration, same_rows

TABLES = ("users", "user_settings", "devices", "notification_templates")


def insert_user(connection: psycopg.Connection, user_id: int, name: str) -> None:
    connection.execute(
        "INSERT INTO users (id, club_id, first_name, last_name) VALUES (%s, 1, %s, 'x')", (user_id, name)
    )


def xid(connection: psycopg.Connection) -> str:
    row = connection.execute("SELECT pg_current_xact_id()::xid::text").fetchone()
    assert row is not None
    return str(row[0])


def await_wait_for(connection: psycopg.Connection, transaction: str) -> None:
    """Wait until the creation of the slot waits for this transaction to end."""
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND transactionid::text = %s"
    for _ in range(600):
        row = connection.execute(query, (transaction,)).fetchone()
        if row and row[0]:
            return
        connection.execute("SELECT pg_sleep(0.05)")
    raise AssertionError(f"no session waits for transaction {transaction}")


def test_transaction_open_during_the_snapshot_wins(stack: StackConfig) -> None:
    """The open transaction wins although its LSN is lower than the snapshot's."""
    with RunningGeneration.made(stack) as made, made.sql() as sql:
        insert_user(sql, 1, "before")
        insert_user(sql, 2, "before")
        first, second, open_one = (made.sql(autocommit=False) for _ in range(3))
        # A new slot waits for every open transaction, then for the transactions that began during this wait. Only a
        # transaction that begins during the second wait may stay open across the snapshot and still be streamed.
        first_xid = xid(first)
        made.start_connector()
        await_wait_for(sql, first_xid)
        second_xid = xid(second)
        first.commit()
        await_wait_for(sql, second_xid)
        open_one.execute("UPDATE users SET first_name = 'open' WHERE id = 1")
        open_one.execute("INSERT INTO users (id, club_id, first_name, last_name) VALUES (3, 1, 'open', 'x')")
        second.commit()
        made.consume_until(made.complete)
        assert made.documents("users")["1"]["first_name"] == "before"
        open_one.commit()
        made.consume_until(lambda: "3" in made.documents("users"))

        change = next(c for c in made.changes() if isinstance(c, RowChanged) and c.id == "1" and c.version > 1)
        snapshot_lsn = lsn_of_snapshot(made)
        assert change.version < snapshot_lsn, "the interleaving did not happen: nothing was tested"
        assert made.documents("users")["1"]["first_name"] == "open"
        assert same_rows(made.documents("users"), made.rows("users"))
        for connection in (first, second, open_one):
            connection.close()


def lsn_of_snapshot(made: RunningGeneration) -> int:
    for record in made.records:
        value = json.loads(record.value or b"null")
        if value and value.get("op") == "r":
            return int(value["source"]["lsn"])
    raise AssertionError("there is no row of the snapshot")


def test_rows_committed_during_the_snapshot_are_served(stack: StackConfig) -> None:
    with RunningGeneration.made(stack) as made, made.sql() as sql:
        sql.execute(
            "INSERT INTO users (id, club_id, first_name, last_name)"
            " SELECT g, 1, 'f' || g, 'x' FROM generate_series(1, 5000) g"
        )
        ended = threading.Event()

        def write() -> None:
            with made.sql() as other:
                number = 0
                while not ended.is_set():
                    number += 1
                    row = number % 5000 + 1
                    other.execute("UPDATE users SET last_name = %s WHERE id = %s", (str(number), row))
                    if number % 7 == 0:
                        other.execute("DELETE FROM users WHERE id = %s", (row,))
                    if number % 11 == 0:
                        insert_user(other, 10_000 + number, "new")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            made.start_connector()
            made.consume_until(made.complete)
        finally:
            ended.set()
            writer.join()
        made.consume_until(lambda: same_rows(made.documents("users"), made.rows("users")))
        assert not made.producer.produced


def test_every_kind_of_change_makes_the_index_equal_its_table(stack: StackConfig) -> None:
    with RunningGeneration.made(stack) as made, made.sql() as sql:
        for number in range(1, 9):
            insert_user(sql, number, f"n{number}")
        sql.execute("INSERT INTO user_settings (user_id, club_id, channels) VALUES (1, 1, '{\"push\": false}')")
        # PostgreSQL stores this text out of line, since it exceeds a page and does not compress, and an update does not
        # log it.
        sql.execute(
            "INSERT INTO notification_templates (id, club_id, type, channel, locale, title, body)"
            " SELECT 1, NULL, 'news', 'push', 'en', 't', string_agg(md5(g::text), '') FROM generate_series(1, 1000) g"
        )
        sql.execute("INSERT INTO devices (id, user_id, platform, token) VALUES (1, 1, 'gcm', 'a'), (2, 2, 'apns', 'b')")
        made.start_connector()
        made.consume_until(made.complete)

        with sql.transaction():
            sql.execute("UPDATE users SET first_name = 'once' WHERE id = 2")
            sql.execute("UPDATE users SET first_name = 'twice' WHERE id = 2")
        with sql.transaction():
            insert_user(sql, 100, "short-lived")
            sql.execute("DELETE FROM users WHERE id = 100")
        with sql.transaction():
            sql.execute("DELETE FROM users WHERE id = 3")
            insert_user(sql, 3, "again")
        sql.execute("UPDATE users SET id = 44 WHERE id = 4")
        with sql.transaction():
            sql.execute("UPDATE users SET id = 55 WHERE id = 5")
            sql.execute("UPDATE users SET id = 5 WHERE id = 55")
        sql.execute("DELETE FROM users WHERE id = 6")
        sql.execute(
            "UPDATE user_settings SET channels = '{}', quiet_hours = '{\"start\": \"22:00\"}' WHERE user_id = 1"
        )
        sql.execute("UPDATE notification_templates SET title = 'changed' WHERE id = 1")
        sql.execute("DELETE FROM devices WHERE id = 2")
        insert_user(sql, 999, "last")

        made.consume_until(lambda: all(same_rows(made.documents(t), made.rows(t)) for t in TABLES))
        assert made.documents("users")["2"]["first_name"] == "twice"
        twice = [c.version for c in made.changes() if isinstance(c, RowChanged) and c.table == "users" and c.id == "2"]
        assert len(set(twice)) == 3, "two changes of a row in one transaction have LSNs of their own"
        assert len(made.documents("notification_templates")["1"]["body"]) == 32_000
        directory = made.directory()
        assert directory.users([6, 100]) == {}
        assert directory.user_settings([1])[1].quiet_hours == {"start": "22:00"}


def test_large_row_stops_no_other_change(stack: StackConfig) -> None:
    """Connect's producer ends with its task at a record above its limit, and at each restart."""
    with RunningGeneration.made(stack) as made, made.sql() as sql:
        insert_user(sql, 1, "a")
        sql.execute(
            "INSERT INTO notification_templates (id, club_id, type, channel, locale, title, body, html)"
            " VALUES (1, NULL, 'news', 'email', 'en', 't', 'b', 'short')"
        )
        sql.execute("INSERT INTO user_settings (user_id, club_id) VALUES (1, 1)")
        made.start_connector()
        made.consume_until(made.complete)
        sql.execute("UPDATE notification_templates SET html = repeat('ü', 3000000)")
        sql.execute(
            "UPDATE user_settings SET channels = jsonb_build_object('push', false, 'note', repeat('a', 1500000))"
        )
        sql.execute("UPDATE user_settings SET categories = '{}'")
        insert_user(sql, 2, "b")
        made.consume_until(lambda: "2" in made.documents("users") and "1" in made.documents("user_settings"))
        made.consume_until(lambda: made.documents("user_settings")["1"]["categories"] == {})
        assert made.documents("user_settings")["1"]["channels"]["push"] is False
        assert made.documents("notification_templates")["1"]["html"] == "short"
        ((*_, headers),) = made.producer.produced
        assert b"html" in dict(headers)["masscomm.error"]


def test_look_up_before_the_complete_marker_is_a_retry(stack: StackConfig) -> None:
    with RunningGeneration.made(stack) as made, made.sql() as sql:
        insert_user(sql, 1, "a")
        directory = made.directory()

        def refused(look_up: Any) -> bool:
            with pytest.raises(Retry, match="not ready"):
                look_up()
            return True

        made.start_connector()
        made.consume_until(lambda: "1" in made.documents("users"))
        if not made.complete():  # the index has the user, but an incomplete directory refuses look-ups
            assert refused(lambda: directory.users([1]))
            assert refused(lambda: directory.devices([1]))
            assert refused(lambda: directory.templates([(1, "news", "push")]))
        made.consume_until(made.complete)
        assert directory.users([1, 2]).keys() == {1}


def test_truncated_table_makes_the_directory_not_ready(stack: StackConfig) -> None:
    with RunningGeneration.made(stack) as made, made.sql() as sql:
        insert_user(sql, 1, "a")
        sql.execute("INSERT INTO devices (id, user_id, platform, token) VALUES (1, 1, 'gcm', 'a')")
        made.start_connector()
        made.consume_until(made.complete)
        directory = made.directory()
        assert directory.users([1])
        sql.execute("TRUNCATE devices")
        made.consume_until(lambda: not made.complete())
        assert "devices was truncated" in made.state()["rebuild_reason"]
        devices = cdc_topic("devices", made.name)
        assert b'{"truncated":true}' in [record.key for record in made.records if record.topic == devices]
        with pytest.raises(Retry, match="not ready"):
            directory.users([1])


def test_confirm_waits_for_the_database_and_the_consumer(stack: StackConfig) -> None:
    with RunningGeneration.made(stack) as made, made.sql() as sql:
        made.start_connector()
        made.consume_until(made.complete)
        insert_user(sql, 7, "new")
        row = sql.execute("SELECT (extract(epoch from clock_timestamp()) * 1000)::bigint").fetchone()
        assert row is not None
        now = row[0]
        directory = made.directory()
        with pytest.raises(Retry, match="behind"):
            directory.confirm(now)
        confirmed = []

        def believed() -> bool:
            try:
                confirmed.append(directory.confirm(now))
            except Retry:
                return False
            return True

        made.consume_until(believed)
        assert directory.users([7]).keys() == {7}
        assert confirmed[-1].ts_ms >= now
        assert directory.position() == confirmed[-1]


def test_snapshot_end_alone_does_not_complete_a_generation(stack: StackConfig) -> None:
    """Small batches slow down Debezium's producer like a slow broker, so records are queued when the snapshot ends."""
    with RunningGeneration.made(stack, **{"producer.override.batch.size": "1000"}) as made, made.sql() as sql:
        sql.execute(
            "INSERT INTO users (id, club_id, first_name, last_name)"
            " SELECT g, 1, 'f' || g, 'x' FROM generate_series(1, 20000) g"
        )
        notifications = Consumer(
            {
                "bootstrap.servers": stack.kafka_bootstrap,
                "broker.address.family": "v4",
                "group.id": f"{made.name}.notifications",
                "fetch.wait.max.ms": 1,
            }
        )
        notifications.assign([TopicPartition(cdc_topic("notification", made.name), 0, 0)])
        made.start_connector()
        kinds: list[str] = []
        while "COMPLETED" not in kinds:
            message = notifications.poll(30)
            assert message is not None
            kinds.append(json.loads(message.value() or b"")["type"])
        notifications.close()
        at_the_notification = sum(made.progress().end_offsets()[cdc_topic("users", made.name)].values())

        made.generation.snapshot_completed(1)
        while "targets" not in made.state():
            made.generation.advance()
        assert sum(made.state()["targets"][cdc_topic("users", made.name)].values()) == 20_000
        if at_the_notification == 20_000:
            pytest.skip("the producer was faster than the notification: nothing was tested")
