"""The records from which a directory is rebuilt."""

from unittest.mock import create_autospec

import pytest
from confluent_kafka import TopicPartition

from masscomm.kafka.topic_reading import TopicReader
from ops.directory_rebuild import CannotRebuild, records_of


@pytest.mark.kills(guard="rebuild.whole_topic")
def test_topic_that_has_lost_records_is_refused() -> None:
    reader = create_autospec(TopicReader, instance=True)
    reader.partitions.side_effect = lambda topic: [TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 12)]
    with pytest.raises(CannotRebuild, match="before the offset 12 are gone"):
        list(records_of(reader, "g1"))
    reader.read.assert_not_called()
