"""cdc_consumer emits, by table, how long changes took from their commit until the directory returns them."""

from masscomm.cdc.captured_tables import captured_tables
from masscomm.domain.source_tables import OPTIONAL_TABLES, directory_table
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import CHANGE_LATENCY
from tests.support.harness.cdc_consumer import Consumer
from tests.support.inputs.debezium_records import row

USER = {"id": 1, "club_id": 1, "time_zone": None}
DEVICE = {"id": 7, "user_id": 1, "token": "t", "platform": "gcm"}


def _latencies(consumer: Consumer, *records: KafkaRecord) -> dict[str, object]:
    metrics.taken()
    consumer.run(*records)
    found, _ = metrics.taken()
    return {table: found[metric.name] for table, metric in CHANGE_LATENCY.items() if metric.name in found}


def test_each_table_of_the_directory_has_a_metric() -> None:
    assert CHANGE_LATENCY.keys() == {directory_table(name) for name in captured_tables()} | set(OPTIONAL_TABLES)


def test_each_acknowledged_change_is_measured_by_table() -> None:
    """A change that a later one of the batch replaces is readable with it."""
    consumer = Consumer()
    consumer.clock.advance(0.5)
    changes = [row("users", "c", 10, USER), row("users", "u", 20, USER), row("devices", "d", 30, None, DEVICE)]
    assert _latencies(consumer, *changes) == {"users": [377, 377], "devices": [377]}


def test_change_of_a_clock_that_is_ahead_took_no_time() -> None:
    assert _latencies(Consumer(), row("users", "c", 10, USER)) == {"users": [0]}


def test_snapshot_row_and_refused_change_have_no_latency() -> None:
    consumer = Consumer()
    consumer.cluster.refuse["devices-g1", "7"] = (429, "busy")
    assert _latencies(consumer, row("users", "r", 10, USER), row("devices", "c", 20, DEVICE)) == {}
