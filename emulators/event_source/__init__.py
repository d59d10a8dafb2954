"""Kafka records to Lambda functions, as Lambda's Kafka event source mapping (provisioned mode) brings them.

`EventSourceMapping` decides: batches, retries, on-failure records, commits. It reaches Kafka through the
ports of `ports.py`: `kafka.py` is the real one, `memory.py` one for tests, and both pass the same contract test.
"""

from emulators.event_source.mapping import EventSourceMapping
from emulators.event_source.record import Partition, SourceRecord
from emulators.event_source.spec import MappingSpec, PartialFailures

__all__ = ["EventSourceMapping", "MappingSpec", "PartialFailures", "Partition", "SourceRecord"]
