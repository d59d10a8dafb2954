"""Faults while places of a frequency cap are taken."""

import time

from tests.faults.counting import put_category
from tests.faults.moments import dynamodb
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.population import CATEGORIES
from tests.support.fault_stack.proxy import Hold
from tests.support.until import until


def checker_killed(bench: Bench, _: Send) -> None:
    """Kill preference_checker between taking the places of a send and recording its decisions. Each user gets the send
    once, and a second send is refused.
    """
    name = f"capped-{time.time_ns():x}"
    valid_from_ms = put_category(bench, name, channels=["push"], caps=[{"limit": 1, "window": "24h"}])
    until("the cap is valid", lambda: time.time_ns() // 1_000_000 >= valid_from_ms, 120)
    # Places of users without a device are given back later.
    users = [user_id for user_id in bench.shared[:120] if bench.population.world.people[user_id].active_devices]
    template = CATEGORIES["push"]
    with bench.stack.dynamodb.fault(Hold(), when=dynamodb("decisions", "PutItem")) as decided:
        first = bench.emit(users, category=name, template=template)
        decided.await_hits()
        bench.kill("preference_checker")
        decided.discard()
    until("the first send has ended", lambda: bench.ended(first), bench.timeout_s)
    second = bench.emit(users, category=name, template=template, is_capped=True)
    until("the second send has ended", lambda: bench.ended(second), bench.timeout_s)
