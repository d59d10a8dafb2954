"""The job counts no record that the functions cannot decode.

`--flood full` reads 20,000 records a topic instead of a few hundred.
"""

import json

import pytest

from masscomm.domain.limits import FAR_FUTURE_MS
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from spark_metrics.common.sources import DELIVERY, OUTCOME, SEND, WEBHOOK_OUTCOME, Source
from spark_metrics.counting.facts import facts
from tests.support.inputs.hostile_records import hostile_records
from tests.support.spark.session import ToFrame


@pytest.fixture(scope="module")
def registry() -> InMemorySchemaRegistry:
    registry = InMemorySchemaRegistry()
    for topic in topics.chain_topics():
        if topic.schema is not None:
            registry.register(f"{topic.name}-value", own_schema(topic.schema))
    return registry


def _fault(codec: Codec, source: Source, value: bytes | None) -> DeadLetter | None:
    try:
        codec.decode(source.schema, value)
    except DeadLetter as error:
        return error
    return None


@pytest.mark.guarantee("metrics.undecodable_send_is_not_counted")
@pytest.mark.kills(guard="metrics.bytes_left_over")
@pytest.mark.kills(guard="metrics.texts_not_counted")
@pytest.mark.parametrize(
    ("source", "name"),
    [
        (SEND, topics.SEND_MONOLITH),
        (DELIVERY, topics.DELIVERY),
        (OUTCOME, topics.OUTCOME),
        (WEBHOOK_OUTCOME, topics.WEBHOOK_OUTCOME),
    ],
)
def test_job_counts_no_record_that_functions_refuse(
    source: Source,
    name: str,
    registry: InMemorySchemaRegistry,
    kafka_frame: ToFrame,
    request: pytest.FixtureRequest,
) -> None:
    """Deliveries and outcomes are compared only by trailing bytes: the job does not read all of their fields."""
    count = 20_000 if request.config.getoption("--flood") == "full" else 900
    codec, schema = Codec(registry), own_schema(source.schema)
    values = [each.value for each in hostile_records(name, count, codec=codec, counted=True)]
    writers = {source.kind: {registry.id_of(f"{name}-value", schema): json.dumps(schema)}}
    rows = (
        kafka_frame([{"topic": name, "value": value} for value in values])
        .transform(facts, writers=writers, far_future_ms=FAR_FUTURE_MS)
        .select("kafka_offset", "problem")
        .collect()
    )
    counted = {row["kafka_offset"] for row in rows if row["problem"] is None}
    assert len(rows) == count
    # Hostile columns of results seldom have equal lengths.
    assert len(counted) > count / (20 if source is WEBHOOK_OUTCOME else 4)
    faults = {place: fault for place in counted if (fault := _fault(codec, source, values[place])) is not None}
    if source is not SEND:
        # The job skips fields of deliveries and outcomes, so it checks neither the UTF-8 nor the lengths in them.
        faults = {place: fault for place, fault in faults.items() if fault.__cause__ is None}
    assert {place: str(fault) for place, fault in faults.items()} == {}
