"""The moments at which faults begin: conditions that match requests, and the progress of a send."""

from collections.abc import Callable
from typing import Literal

from functions.delivery.publish import UNRECORDED
from local.emulators.sns_stand_in import Rule
from masscomm.kafka import topics
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.proxy import Request
from tests.support.until import until

type Moment = Literal["before", "middle", "after"]

LEDGER = "delivery_ledger"
# The topics of delivery in all lanes and queues.
DELIVERY = tuple(topic.name for topic in topics.chain_topics() if topic.name.startswith(topics.DELIVERY))
HALF_A_SLICE = UNRECORDED // 2
# The recipients of three recorded slices and half of a fourth one.
INSIDE_A_SLICE = 3 * UNRECORDED + HALF_A_SLICE


def path(*parts: str) -> Callable[[Request], bool]:
    """Return a condition that is true for HTTP requests whose path contains one of these parts."""
    return lambda request: any(part in request.operation for part in parts)


def asks_for_user(user_id: int) -> Callable[[Request], bool]:
    """Return a condition for the builder's look-up of a user: only the builder reads users without settings."""
    name = f'"{user_id}"'.encode()

    def holds(request: Request) -> bool:
        return "/_mget" in request.operation and name in request.body and b"user_settings" not in request.body

    return holds


def bigger_mget(request: Request) -> bool:
    """Return a condition for look-ups of many ids; look-ups of change data capture's progress have few."""
    return "/_mget" in request.operation and len(request.body) > 1_000


def dynamodb(table: str, *operations: str) -> Callable[[Request], bool]:
    """Return a condition that is true for DynamoDB calls on a table."""
    name = f'"{table}"'.encode()
    return lambda request: request.target.rpartition(".")[2] in operations and name in request.body


def on_its_way(bench: Bench, send: Send) -> None:
    """Send to a slow provider, and wait until it has accepted a message."""
    bench.stack.sns.answer(Rule(code="slow", delay_s=0.1))
    send()
    until("the send is on its way", lambda: bench.stack.sns.counts().accepted > 0 and bool(received(bench)))


def received(bench: Bench) -> set[tuple[str, str]]:
    """Return the provider calls of this cell's sends that were accepted."""
    ours = {pair for sent in bench.sends for pairs in sent.calls.values() for pair in pairs}
    return ours & bench.received().keys()
