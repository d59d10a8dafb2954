"""The indices are filled from the topics of the real Debezium, after they were lost."""

from collections.abc import Callable

import pytest

from functions.cdc_consumer.generation import Generation
from local.devstack.config import StackConfig
from local.devstack.provision import create_indices
from masscomm.cdc.captured_tables import captured_tables
from masscomm.clock import SystemClock
from masscomm.errors import Retry
from masscomm.kafka.topic_reading import TopicReader
from ops.directory_rebuild import CannotRebuild, DirectoryRebuild, Rebuilt, records_of
from tests.support.harness.change_data_capture import RunningGeneration


def _not(_: float) -> None:
    """Pause for no time."""


def _stop(_: int) -> None:
    raise Retry("the machine stops")


def _rebuild(made: RunningGeneration, reader: TopicReader, report: Callable[[int], None] = lambda _: None) -> Rebuilt:
    return DirectoryRebuild(
        client=made.client,
        generation=made.name,
        progress=made.progress(),
        clock=SystemClock(),
        pause=_not,
        report=report,
    ).run(records_of(reader, made.name), [])


def _serves(made: RunningGeneration, *ids: int) -> bool:
    try:
        return set(made.directory().users(ids)) == {*ids}
    except Retry:
        return False


@pytest.mark.kills(guard="rebuild.state_after_rows")
@pytest.mark.kills(guard="rebuild.answering_generation")
def test_lost_indices_are_rebuilt_from_the_topics(stack: StackConfig) -> None:
    with RunningGeneration.made(stack) as made, made.sql() as sql, TopicReader(stack.kafka_bootstrap) as reader:
        sql.execute(
            "INSERT INTO users (id, club_id, first_name, last_name)"
            " SELECT g, 1, 'f' || g, 'x' FROM generate_series(1, 50) g"
        )
        sql.execute("INSERT INTO user_settings (user_id, club_id, channels) VALUES (1, 1, '{\"push\": false}')")
        sql.execute("INSERT INTO devices (id, user_id, platform, token) VALUES (7, 2, 'gcm', 't')")
        made.start_connector()
        made.consume_until(made.complete)
        sql.execute("UPDATE users SET first_name = 'later' WHERE id = 3")
        sql.execute("DELETE FROM users WHERE id = 50")
        made.consume_until(lambda: "50" not in made.documents("users"))
        with pytest.raises(CannotRebuild, match="answer look-ups"):
            _rebuild(made, reader)

        before = {table: made.documents(table) for table in captured_tables()}
        made.lose_indices()
        with pytest.raises(Retry, match="the machine stops"):
            _rebuild(made, reader, _stop)
        Generation(made.client, name=made.name, progress=made.progress(), clock=SystemClock()).advance()
        assert not _serves(made, 3)
        done = _rebuild(made, reader)
        assert (done.is_complete, done.refused) == (True, 0)
        assert _serves(made, 1, 2, 3)
        assert {table: made.documents(table) for table in captured_tables()} == before
        # Changes go on as before.
        sql.execute("UPDATE users SET first_name = 'next' WHERE id = 4")
        made.consume_until(lambda: made.documents("users")["4"]["first_name"] == "next")


@pytest.mark.nightly
def test_missing_index_is_made_first(stack: StackConfig) -> None:
    with RunningGeneration.made(stack) as made, TopicReader(stack.kafka_bootstrap) as reader:
        made.client.indices.delete(index=f"users-{made.name}")
        with pytest.raises(CannotRebuild, match="masscomm upgrade"):
            _rebuild(made, reader)
        create_indices(stack.opensearch_url, made.name)


@pytest.mark.nightly
def test_truncated_table_needs_a_new_snapshot(stack: StackConfig) -> None:
    with RunningGeneration.made(stack) as made, made.sql() as sql, TopicReader(stack.kafka_bootstrap) as reader:
        sql.execute("INSERT INTO users (id, club_id, first_name, last_name) VALUES (2, 1, 'f', 'x')")
        sql.execute("INSERT INTO devices (id, user_id, platform, token) VALUES (7, 2, 'gcm', 't')")
        made.start_connector()
        made.consume_until(made.complete)
        sql.execute("TRUNCATE devices")
        made.consume_until(lambda: "rebuild_reason" in made.state())
        with pytest.raises(CannotRebuild, match="needs a new snapshot"):
            _rebuild(made, reader)
        made.lose_indices()
        with pytest.raises(CannotRebuild, match="was truncated"):
            _rebuild(made, reader)
