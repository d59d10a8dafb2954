"""Invokes Lambda functions with Kafka records, as Lambda's Kafka event source mapping does in both of its modes.

`EventSourceMapping` forms batches, retries them, produces on-failure records and commits offsets. It uses Kafka through
the interfaces in `ports.py`. `kafka.py` implements them with a real broker, `memory.py` in memory for tests; both pass
the same contract tests.
"""

from local.emulators.event_source.mapping import EventSourceMapping
from local.emulators.event_source.record import Partition, SourceRecord
from local.emulators.event_source.spec import MappingSpec, PartialFailures, Pollers

__all__ = ["EventSourceMapping", "MappingSpec", "PartialFailures", "Partition", "Pollers", "SourceRecord"]
