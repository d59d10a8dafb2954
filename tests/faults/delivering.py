"""What recipients, records and items of delivery may be like, while it delivers."""

from tests.faults.bench import Bench
from tests.faults.cell import Send
from tests.faults.moments import path, received
from tests.faults.proxy import Answer
from tests.faults.waiting import until


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
