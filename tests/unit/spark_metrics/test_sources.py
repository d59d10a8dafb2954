import json

import pytest

from masscomm.kafka.topics import chain_topics
from spark_metrics.common.sources import OUTCOME, SEND, Source, all_sources


def test_sources_are_the_topics_with_the_job_as_consumer() -> None:
    read = [topic for source in all_sources() for topic in source.topics()]
    assert sorted(read) == sorted(topic.name for topic in chain_topics() if "spark_metrics" in topic.consumers)


@pytest.mark.parametrize("source", all_sources(), ids=lambda source: source.kind)
def test_a_source_reads_its_topics_by_their_schema(source: Source) -> None:
    schemas = {topic.schema for topic in chain_topics() if topic.name in source.topics()}
    assert schemas == {source.schema}
    read = json.loads(source.reader_schema())
    assert {field["name"] for field in read["fields"]} == set(source.fields) | set(source.texts)


def test_timestamps_are_read_as_the_integers_they_are() -> None:
    fields = {field["name"]: field["type"] for field in json.loads(SEND.reader_schema())["fields"]}
    assert fields["timestamp"] == "long"
    assert fields["send_id"] == ["null", "string"]


def test_reader_schema_of_a_result_has_only_counted_fields() -> None:
    fields = {field["name"]: field["type"] for field in json.loads(OUTCOME.reader_schema())["fields"]}
    assert [field["name"] for field in fields["results"]["items"]["fields"]] == ["status", "reason", "count"]
