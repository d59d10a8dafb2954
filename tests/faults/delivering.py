"""What recipients, records and items of delivery may be like, while it delivers."""

import json

from masscomm.kafka import topics
from tests.faults.moments import path, received
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.proxy import Answer, Edit, HoldAnswer, Request
from tests.support.until import until


def endpoints_late_or_never(bench: Bench, _: Send) -> None:
    """The device registrar is down: devices that are ready get the message at once, the others after it is back.

    A device without a token never gets an endpoint, and nobody waits for it.
    """
    users = bench.population.grow(40)
    ready = [user_id for user_id in users if user_id % 10 not in (1, 2, 4)]  # they have a device and want news
    before = {user_id: set(bench.population.endpoints[user_id]) for user_id in ready}
    states = path("/device_state/")
    with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=states) as refused:
        bench.population.add_devices(ready[::2], 8)
        bench.population.add_devices(ready[:3], 9, refused=True)
        refused.await_hits()
        sent = bench.emit(users)
        at_once = {pair for user_id in ready for pair in sent.calls[user_id] if pair[1] in before[user_id]}
        until("the devices that are ready have it", lambda: received(bench) >= at_once, 30, every_s=0.1)


def absent_then_partly_absent(bench: Bench, _: Send) -> None:
    """Change data capture is behind and knows neither user, then one; kill -9 when both wait and nobody knows."""
    users = [user_id for user_id in bench.shared if user_id % 10 >= 6][:2]  # they have a device, and want everything
    absent = set(users)
    rechecks = [topic.name for topic in topics.chain_topics() if topics.base_of(topic.name) == topics.RECHECK]
    before = bench.records(*rechecks)

    def hide(body: bytes) -> bytes:
        answer = json.loads(body)
        answer["docs"] = [
            {"_index": doc["_index"], "_id": doc["_id"], "found": False}
            if doc["_id"].startswith("position-") or doc["_id"] in map(str, absent)
            else doc
            for doc in answer["docs"]
        ]
        return json.dumps(answer).encode()

    def delays(request: Request) -> bool:
        return request.target.endswith("PutItem") and b'"directory"' in request.body

    with bench.stack.opensearch.fault(Edit(hide), when=path("/_mget")):
        with bench.stack.dynamodb.fault(HoldAnswer(), when=delays) as held:
            sent = bench.emit(users)
            held.await_hits()
            bench.kill("preference_checker")
            absent.discard(users[0])
            held.discard()
        first = set(sent.calls[users[0]])
        until("the one who is known has it", lambda: received(bench) >= first, every_s=0.1)
    # The whole record, and the other user's part as each of its two deliveries left it to the scheduler.
    until("all that waited is released", lambda: bench.records(*rechecks) >= before + 3, every_s=0.1)


# What is recorded of so many takes more than the 400 kB of one item of DynamoDB.
VERY_MANY_DEVICES = 8_000


def very_many_devices(bench: Bench, _: Send) -> None:
    """A user has so many devices that no item holds what they answered: it is published once, and recorded."""
    users = bench.population.grow(10)
    several = next(user_id for user_id in users if user_id % 10 >= 6)  # they have a device, and want everything
    devices = bench.population.add_many_devices(several, VERY_MANY_DEVICES)
    bench.emit(users)
    bench.settle()
    bench.population.remove_devices(devices)
