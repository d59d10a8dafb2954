import base64
from typing import Any, cast

from functions.cdc_consumer.apply_changes import ApplyChanges
from functions.cdc_consumer.generation import Generation
from masscomm.cdc import captured_tables
from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.chain.batch import BatchDriver
from masscomm.clock import FixedClock
from masscomm.directory.client import OpenSearch
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.producer import InMemoryProducer
from tests.support.fakes.opensearch import FakeOpenSearch


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class Consumer:
    """The use case of cdc_consumer with fake servers."""

    def __init__(self, before: "Consumer | None" = None) -> None:
        """Create a consumer. With `before`, it continues on that consumer's cluster and broker."""
        self.cluster: FakeOpenSearch = before.cluster if before else FakeOpenSearch()
        self.progress: InMemoryCdcProgress = before.progress if before else InMemoryCdcProgress()
        self.producer = InMemoryProducer()
        client = cast(OpenSearch, self.cluster)
        self.newer: InMemoryCdcProgress = before.newer if before else InMemoryCdcProgress()
        self.clock: FixedClock = before.clock if before else FixedClock()
        generations = [
            Generation(client, name=name, progress=progress, clock=self.clock)
            for name, progress in (("g1", self.progress), ("g2", self.newer))
        ]
        self.use_case = ApplyChanges(client, *generations, clock=self.clock)
        codec = Codec(InMemorySchemaRegistry())
        self.driver = BatchDriver(function="cdc_consumer", codec=codec, producer=self.producer)

    def run(self, *records: KafkaRecord) -> list[int]:
        """Process these records. Return the offsets to be redelivered."""
        entries: list[dict[str, Any]] = [
            {
                "topic": r.topic,
                "partition": r.partition,
                "offset": r.offset,
                "timestamp": r.timestamp_ms,
                "key": None if r.key is None else base64.b64encode(r.key).decode(),
                "value": None if r.value is None else base64.b64encode(r.value).decode(),
                "headers": [],
            }
            for r in records
        ]
        answer = self.driver.run({"records": {"any-0": entries}}, Context(), self.use_case)
        return [item["itemIdentifier"]["offset"] for item in answer["batchItemFailures"]]

    def state(self, generation: str = "g1") -> dict[str, Any]:
        return self.cluster.documents.get(("directory_state", f"generation-{generation}"), (0, {}))[1]

    def directory(self) -> OpenSearchDirectory:
        """Return the directory over the indices of the generation g1."""
        for table in captured_tables.captured_tables():
            self.cluster.aliases[table] = {f"{table}-g1"}
        return OpenSearchDirectory(
            cast(OpenSearch, self.cluster), progress=lambda _: self.progress, clock=self.clock, wait_s=lambda: 0.1
        )
