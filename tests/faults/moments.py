"""When a fault strikes: requests to be recognised, and how far a send is."""

from collections.abc import Callable
from typing import Literal

from emulators.sns_stand_in import Rule
from functions.delivery.deliver import SLICE_SIZE
from masscomm.kafka import topics
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.proxy import Request
from tests.support.until import until

type Moment = Literal["before", "middle", "after"]

LEDGER = "delivery_ledger"
# Where delivery's records stand, of sends to many and to few.
DELIVERY = tuple(topic.name for topic in topics.chain_topics() if topic.name.startswith(topics.DELIVERY))
HALF_A_SLICE = SLICE_SIZE // 2
WORKERS = 16  # calls of delivery at once
# Some slices are recorded, half of the next is published.
INSIDE_A_SLICE = 3 * SLICE_SIZE + HALF_A_SLICE


def path(*parts: str) -> Callable[[Request], bool]:
    """HTTP requests to a path with one of these in it."""
    return lambda request: any(part in request.what for part in parts)


def asks_for_user(user_id: int) -> Callable[[Request], bool]:
    """The builder's look-up of somebody: it asks for their row and for no settings."""
    name = f'"{user_id}"'.encode()

    def holds(request: Request) -> bool:
        return "/_mget" in request.what and name in request.body and b"user_settings" not in request.body

    return holds


def bigger_mget(request: Request) -> bool:
    """A look-up by id of many, and not the small ones by which the position of change data capture is read."""
    return "/_mget" in request.what and len(request.body) > 1_000


def dynamodb(table: str, *operations: str) -> Callable[[Request], bool]:
    """Calls of DynamoDB about a table."""
    name = f'"{table}"'.encode()
    return lambda request: request.target.rpartition(".")[2] in operations and name in request.body


def on_its_way(bench: Bench, send: Send) -> None:
    """Send, with a provider that takes its time, until it took something."""
    bench.stack.sns.answer(Rule(code="slow", delay_s=0.1))
    send()
    until("the send is on its way", lambda: bench.stack.sns.counts().accepted > 0 and bool(received(bench)))


def received(bench: Bench) -> set[tuple[str, str]]:
    """What the provider took of this cell's sends."""
    ours = {pair for sent in bench.sends for pairs in sent.calls.values() for pair in pairs}
    return ours & bench.received().keys()
