"""The scenarios: each combines a load with the conditions under which it runs."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from lab.benchmarks.chain import comparisons, loads
from lab.benchmarks.chain.measure import Measured, Provider, Taken, at_rest, measure
from lab.benchmarks.running_chain import RunningChain
from local.emulators.local import LOOPBACK
from local.emulators.sns_stand_in import Rule
from tests.support.fault_stack.proxy import HttpProxy, Loop

NAMES = ("broadcast", "small_sends", "rest", "idle", "email", "latency", "naive", "hops", "counts")
# A small broadcast is repeated until it has been sent to this number of recipients in total.
_FEW = 20
_COUNTED_SENDS = 200

type Conditions = Callable[[RunningChain], AbstractContextManager[None]]


def _usual(_: RunningChain) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A load, its conditions, and the end of the chain at which its notifications arrive."""

    name: str
    load: loads.Load
    conditions: Conditions = _usual
    end: Callable[[RunningChain], Taken] = Provider

    def run(self, chain: RunningChain) -> Measured:
        with self.conditions(chain):
            return measure(chain, self.load, end=self.end(chain))


def chosen_scenarios(chosen: Namespace) -> Iterator[Scenario]:
    """Yield the scenarios of --only that run on the usual stack."""
    only = chosen.only
    if "broadcast" in only:
        for size in chosen.sizes:
            load = loads.broadcast(size) if size > 100 else loads.in_turn(max(1, _FEW // size), size)
            yield Scenario(name=f"broadcast of {size:,}", load=load)
    if "small_sends" in only:
        load = loads.small_sends(chosen.sends, chosen.tenants)
        yield Scenario(name=f"{chosen.sends:,} sends of one by Kafka", load=load)
    if "rest" in only:
        load = loads.rest_sends(chosen.rest_sends, chosen.tenants)
        yield Scenario(name=f"{chosen.rest_sends:,} sends of one by REST", load=load)
    if "idle" in only:
        for lane in ("critical", "small"):
            load = loads.in_turn(chosen.pushes, 1, critical=lane == "critical")
            yield Scenario(name=f"one push at idle, {lane} lane", load=load)
    if "email" in only:
        yield Scenario(name=f"e-mail to {chosen.emails:,}", load=loads.broadcast(chosen.emails, "email"))
    if "latency" in only:
        for delay_ms in chosen.latencies:
            yield Scenario(
                name=f"broadcast of {chosen.slow_recipients:,}, provider {delay_ms:g} ms",
                load=loads.broadcast(chosen.slow_recipients),
                conditions=_provider_latency(delay_ms),
            )
    if "naive" in only:
        yield Scenario(
            name=f"naive chain, {chosen.naive_recipients:,}",
            load=comparisons.naive_broadcast(chosen.naive_recipients),
            conditions=comparisons.naive_chain,
        )
    if "hops" in only:
        yield Scenario(
            name=f"three bare Kafka hops, {chosen.hop_messages:,}",
            load=comparisons.hop_messages(chosen.hop_messages),
            conditions=comparisons.bare_hops,
            end=comparisons.LastHop,
        )


def counts(chain: RunningChain, chosen: Namespace) -> dict[str, Measured]:
    """Return one run each of a broadcast and of small sends, with the requests to DynamoDB by operation.

    The functions call DynamoDB through a counting proxy, so the Lambda host is restarted before and after the runs.
    """
    recipients, sends = min(chosen.slow_recipients, max(chosen.sizes)), min(_COUNTED_SENDS, chosen.sends)
    found = {}
    with Loop() as loop:
        proxy = HttpProxy(loop, chain.stack.config.ports.dynamodb)
        chain.reconfigure({"AWS_ENDPOINT_URL_DYNAMODB": f"http://{LOOPBACK}:{proxy.port}"})
        at_rest(chain)
        for name, load in (
            (f"requests of a broadcast of {recipients:,}", loads.broadcast(recipients)),
            (f"requests of {sends:,} sends of one", loads.small_sends(sends, chosen.tenants)),
        ):
            found[name] = measure(chain, load, dynamodb_requests=proxy.requests)
        chain.reconfigure({})
    return found


def _provider_latency(delay_ms: float) -> Conditions:
    @contextmanager
    def slow(chain: RunningChain) -> Iterator[None]:
        if delay_ms:
            chain.sns.answer(Rule(code="slow", delay_s=delay_ms / 1000))
        try:
            yield
        finally:
            chain.sns.clear()

    return slow
