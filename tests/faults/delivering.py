"""Unusual states of devices, users and ledger items during delivery."""

import json

from masscomm.kafka import topics
from tests.faults.moments import path, received
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.proxy import Answer, Edit, HoldAnswer, Request
from tests.support.until import until


def endpoints_late_or_never(bench: Bench, _: Send) -> None:
    """The device registrar is down: ready devices get the message at once, the others once the registrar has recovered.

    A device without a token never gets an endpoint and delays no other device.
    """
    users = bench.population.grow(40)
    ready = [user_id for user_id in users if user_id % 10 not in (1, 2, 4)]
    before = {user_id: set(bench.population.endpoints[user_id]) for user_id in ready}
    states = path("/device_state/")
    with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=states) as refused:
        bench.population.add_devices(ready[::2], 8)
        bench.population.add_devices(ready[:3], 9, refused=True)
        refused.await_hits()
        sent = bench.emit(users)
        at_once = {pair for user_id in ready for pair in sent.calls[user_id] if pair[1] in before[user_id]}
        until("the ready devices have the message", lambda: received(bench) >= at_once, 30, every_s=0.1)


def absent_then_partly_absent(bench: Bench, _: Send) -> None:
    """Change data capture is behind: both users of a send are absent from the directory at first, then only one is.

    preference_checker is killed after it has delayed both users, before their outcome.
    """
    users = [user_id for user_id in bench.shared if user_id % 10 >= 6][:2]
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
        until("the known user has the message", lambda: received(bench) >= first, every_s=0.1)
    # One recheck has both users; two are the absent user's part, which two deliveries delayed.
    until("all delayed records are released", lambda: bench.records(*rechecks) >= before + 3, every_s=0.1)


# With this many devices, the results of one user exceed the 400 kB of a DynamoDB item.
VERY_MANY_DEVICES = 8_000


def very_many_devices(bench: Bench, _: Send) -> None:
    """The results of one user's devices exceed one item; each device still gets the message once."""
    users = bench.population.grow(10)
    several = next(user_id for user_id in users if user_id % 10 >= 6)
    devices = bench.population.add_many_devices(several, VERY_MANY_DEVICES)
    bench.emit(users)
    bench.settle()
    bench.population.remove_devices(devices)
