"""The tables about events of docs/internals/capacity.md."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import inf

from infra.cdk.examples import PROD
from lab.capacity.costs import total
from lab.capacity.event_load import EVENT_BYTES, EventLoad, EventTimes, event_sizes
from lab.capacity.event_load import measured as measured_times
from lab.capacity.event_simulation import EventSimulation, rise
from lab.capacity.events import (
    DYNAMODB_S,
    KAFKA_S,
    Batches,
    EventChange,
    EventPlan,
    all_writes_s,
    batches,
    busy_matchers,
    busy_senders,
    data_out_gb_month,
    event_limits,
    event_month,
    handshakes_s,
    kafka_mb_s,
    met_at,
    raised_for_events,
    reads_s,
)
from lab.capacity.service_times import ServiceTimes, measured
from lab.capacity.tables import dollars, figures, table

AVERAGE, PEAK = 5_000, 50_000
# The endpoints of a load of streams, and those of a load of batches.
STREAMED, BATCHED = 10_000, 500
# Assumed, as for sends: the seconds until a mapping has one poller more.
POLLER_S = 10.0
_STEADY_S = 2.0

LOADS: Mapping[str, EventLoad] = {
    "streams, any environment": EventLoad(messages_s=PEAK, endpoints=STREAMED),
    "streams, own environments": EventLoad(messages_s=PEAK, endpoints=STREAMED, is_sticky=True),
    "batches": EventLoad(messages_s=PEAK, endpoints=BATCHED, is_batched=True),
}


@cache
def _times() -> tuple[EventTimes, ServiceTimes]:
    return measured_times(), measured()


def _plan(load: EventLoad) -> EventPlan:
    return EventPlan.of(PROD, is_batched=load.is_batched)


@cache
def _raised(load: EventLoad) -> tuple[EventPlan, list[EventChange]]:
    return raised_for_events(load, _plan(load), *_times())


def _at(load: EventLoad, messages_s: float) -> EventLoad:
    return EventLoad(**{**vars(load), "messages_s": messages_s})


def event_inputs() -> str:
    """Return the table of the model's inputs."""
    times, load, sizes = measured_times(), LOADS["streams, any environment"], event_sizes(100)
    rows = [
        ("data of an event", f"{EVENT_BYTES:,} bytes", "the design point"),
        ("endpoints", f"{STREAMED:,} of streams, {BATCHED:,} of batches, each equally often", "assumed"),
        ("endpoints of an event", f"{load.endpoints_an_event:.0f}", "assumed"),
        ("an endpoint answers in", f"{load.answer_s * 1000:.0f} ms", "assumed"),
        ("round trip to an endpoint", f"{load.round_trip_s * 1000:.0f} ms, two more for a connection", "assumed"),
        ("attempts that fail", f"{load.failing:.0%}", "assumed"),
        ("DynamoDB answers in", f"{DYNAMODB_S * 1000:.0f} ms", "assumed"),
        ("Kafka's requests of a batch of event_matcher", f"{KAFKA_S * 1000:.0f} ms", "assumed"),
        ("event_matcher, processor of an event", f"{times.matcher_s * 1e6:.0f} µs", times.origin),
        ("webhook_sender, of a message in a large request", f"{times.message_s * 1e6:.0f} µs", "the same"),
        ("webhook_sender, of a request", f"{times.request_s * 1e6:.0f} µs", "the same"),
        ("a TLS handshake, the client's processor", f"{times.handshake_s * 1e6:,.0f} µs", "the same"),
        (
            "Kafka, of an event and of a message, uncompressed",
            f"{sizes.event:,} and {sizes.message:,.0f} bytes",
            "our codec",
        ),
        (
            "a result, in Kafka and in DynamoDB",
            f"{sizes.result:,.0f} and {sizes.stored_result:,.0f} bytes",
            "our codec",
        ),
        ("a request with one message", f"{sizes.head + sizes.body:,} bytes", "our code"),
    ]
    return table(("what", "how much", "source"), rows)


def event_limits_met() -> str:
    """Return the table of the limits of production as deployed: the messages a second at which each is reached."""
    names: dict[str, list[str]] = {}
    for load in LOADS.values():
        for limit in event_limits(load, _plan(load), *_times()):
            met = met_at(limit.name, load, _plan(load), *_times())
            names.setdefault(limit.name, ["-"] * len(LOADS))
            text = figures(met) if met < 1e6 else "at none"
            names[limit.name][list(LOADS.values()).index(load)] = f"**{text}**" if met < PEAK else text
    return table(("limit is reached at messages/s", *LOADS), [[name, *row] for name, row in names.items()])


def event_changes() -> str:
    """Return the table of the changes to production that each load needs, in the order of the limits."""
    rows = []
    for name, load in LOADS.items():
        for rate in (AVERAGE, PEAK):
            changes = _raised(_at(load, rate))[1]
            first = f"{name}, {rate:,}/s"
            rows += [["" if number else first, each.limit.name, each.done] for number, each in enumerate(changes)]
    return table(("for", "met", "change"), rows).replace("---:", "---")


def event_needs() -> str:
    """Return the table of what runs, moves and costs in a month, with the changes above."""
    columns = [(f"{name}, {rate:,}/s", _at(load, rate)) for name, load in LOADS.items() for rate in (AVERAGE, PEAK)]
    rows: dict[str, list[str]] = {}
    for _, load in columns:
        plan = _raised(load)[0]
        for name, text in _needs(load, plan, batches(load, plan, *_times())):
            rows.setdefault(name, []).append(text)
        costs = event_month(load, plan, *_times())
        for cost in costs:
            rows.setdefault(cost.component, []).append(dollars(cost.dollars))
        rows.setdefault("**a month**", []).append(f"**{dollars(total(costs))}**")
        million = total(costs) / (load.messages_s * 86_400 * 365 / 12) * 1e6
        rows.setdefault("a million messages", []).append(dollars(million))
    return table(("", *(name for name, _ in columns)), [[name, *row] for name, row in rows.items()])


def _needs(load: EventLoad, plan: EventPlan, found: Batches) -> Sequence[tuple[str, str]]:
    pollers = max(busy_senders(load, found), busy_matchers(load, found))
    return [
        ("partitions of a topic", f"{plan.partitions}"),
        ("brokers, disk of each", f"{plan.brokers}, {plan.volume_gb / 1_000:,.0f} TB"),
        ("environments at work, of event_matcher and the sender", _busy(load, found)),
        ("pollers of the busiest mapping", f"{max(1, round(pollers / 5 + 0.5))}"),
        ("messages of a request", figures(found.messages_a_request)),
        ("TLS handshakes", f"{figures(handshakes_s(load, found))}/s"),
        ("written to Kafka, uncompressed", f"{figures(kafka_mb_s(load, found))} MB/s"),
        ("DynamoDB writes, reads", f"{figures(all_writes_s(load, found))}, {figures(reads_s(load, found))} units/s"),
        ("write units of a message", f"{all_writes_s(load, found) / load.messages_s:.2f}"),
        ("data out", f"{data_out_gb_month(load, found) / 1_000:,.0f} TB a month"),
    ]


def _busy(load: EventLoad, found: Batches) -> str:
    return f"{figures(busy_matchers(load, found))}, {figures(busy_senders(load, found))}"


def event_rise() -> str:
    """Return the table of what waits after a load has risen at once from AVERAGE to PEAK."""
    rows = []
    for name, load in LOADS.items():
        plan = _raised(load)[0]
        for label, pollers, poller_s in (
            ("one poller, one more each 10 s", 1, POLLER_S),
            (f"{plan.pollers} pollers from the start", plan.pollers, 0.0),
        ):
            found = rise(load, plan, *_times(), pollers=pollers, poller_s=poller_s)
            ended = "never" if found.ended_s == inf else f"{found.ended_s:,.0f} s"
            rows.append([f"{name}, {label}", f"{found.most:,.0f}", f"{found.age_s:.0f} s", ended])
    return table((f"{PEAK:,}/s at once", "the most that wait", "they are late by", "none waits after"), rows)


def event_simulation() -> str:
    """Return the table of the simulation of steady loads."""
    rows = []
    for name, load in LOADS.items():
        plan = _raised(load)[0]
        played = EventSimulation(load, plan, *_times())
        found = played.run(_STEADY_S)
        waits = [f"{found.percentile(share, since=_STEADY_S / 2) * 1000:,.0f} ms" for share in (0.5, 0.99)]
        busy = (found.matcher_busy_s / _STEADY_S, found.sender_busy_s / _STEADY_S)
        rows.append([name, f"{figures(busy[0])}, {figures(busy[1])}", *waits, f"{played.waiting / PEAK * 1000:.0f} ms"])
    head = (f"{PEAK:,}/s", "environments busy", "half within", "99 % within", "waiting at the end")
    return table(head, rows)


EVENT_MODEL: Mapping[str, Callable[[], str]] = {
    "event inputs": event_inputs,
    "event limits": event_limits_met,
    "event changes": event_changes,
    "event needs": event_needs,
    "event rise": event_rise,
}
EVENT_SIMULATION: Mapping[str, Callable[[], str]] = {"event simulation": event_simulation}
