"""The traffic of a load: records by topic, look-ups, writes to DynamoDB, provider calls."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from masscomm.kafka import topics
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Deployment
from tests.support.fault_stack.proxy import Delay, Request

# Operations of DynamoDB that write, without their common prefix.
_WRITES = ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems")


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Totals of one load.

    Attributes:
        records: By the topic's name in schemas/topics.yaml, over all lanes and queues.
        look_ups: The functions' requests to OpenSearch for documents by id and for devices.
        writes: The requests to DynamoDB that write, by operation.
        calls: The calls that the provider accepted.
    """

    records: Counter[str]
    look_ups: int
    writes: Counter[str]
    calls: int


def traffic_of(bench: Bench, load: Callable[[], object]) -> Traffic:
    """Run a load on a bench at rest and wait until it has ended."""
    stack = bench.stack
    stack.deploy(Deployment())
    bench.sends = []
    records, calls = _records(bench), stack.sns.counts().accepted
    dynamodb = Counter(stack.dynamodb.requests)
    with stack.opensearch.fault(Delay(0), when=_is_look_up) as look_ups:
        load()
        bench.settle()
    operations: Counter[str] = Counter()
    for target, count in (stack.dynamodb.requests - dynamodb).items():
        operations[target.rpartition(".")[2]] += count
    return Traffic(
        records=_records(bench) - records,
        look_ups=look_ups.hits,
        writes=Counter({name: operations[name] for name in _WRITES if operations[name]}),
        calls=stack.sns.counts().accepted - calls,
    )


def _is_look_up(request: Request) -> bool:
    # Reads of the position of change data capture do not count, because their number depends on time.
    if "/_mget" in request.operation:
        return b'"directory_state"' not in request.body
    return "/devices/_search" in request.operation


def _records(bench: Bench) -> Counter[str]:
    found: Counter[str] = Counter()
    for topic in topics.chain_topics():
        found[topics.base_of(topic.name)] += bench.records(topic.name)
    return found
