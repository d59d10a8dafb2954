"""A process that expands an audience with the real OpenSearch and DynamoDB, until it is killed.

    python -m tests.support.harness.expansion_process OPENSEARCH_URL TABLE LSN RECORD_FILE

It prints a line after each recorded and each produced chunk; the line of a produced one has its index and users.
"""

import json
import sys
from pathlib import Path
from typing import Any

from functions.audience_expander.expand_audience import ExpandAudience
from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.directory.bulk_writes import connect
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.domain.records import SendRequested
from masscomm.kafka import topics
from masscomm.kafka.producer import InMemoryProducer
from masscomm.observability import logs
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from masscomm.stores.sends.dynamodb import DynamoDbSends
from tests.support.harness.audience_expander import recurring_sends
from tests.support.harness.chain import Chain, entry


def show(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class PrintingProducer(InMemoryProducer):
    """Prints each chunk of the send."""

    chain: Chain

    def produce(self, topic: str, key: bytes | None, value: bytes | None, *more: Any) -> None:
        super().produce(topic, key, value, *more)
        send = SendRequested.from_avro(self.chain.codec.decode("SendRequested", value))
        show({"index": send.chunk_index, "of": send.chunk_count, "users": send.to_users})


class PrintingExpansions(DynamoDbSends):
    """Prints a line after each recorded chunk."""

    def record(self, *arguments: Any, **options: Any) -> Any:
        recorded = super().record(*arguments, **options)
        show({})
        return recorded


def main(url: str, table: str, lsn: int, record: bytes) -> int:
    chain = Chain()
    chain.producer = producer = PrintingProducer()
    producer.chain = chain
    chain.driver = chain._driver()
    progress = InMemoryCdcProgress()
    progress.lsn = lsn
    directory = OpenSearchDirectory(
        connect(url), progress=lambda _: progress, clock=chain.clock, clock_skew_ms=0, page_size=20
    )
    use_case = ExpandAudience(
        directory=directory,
        usage=InMemoryKeyUsage(),
        delay_store=InMemoryDelayStore(),
        recurring=recurring_sends(chain.clock),
        sends=PrintingExpansions(table=table),
        clock=chain.clock,
        logger=logs.logger("audience_expander"),
    )
    return len(chain.run(use_case, entry(record, topic=topics.AUDIENCE)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]).read_bytes()))
