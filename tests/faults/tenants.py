"""One tenant's load must not delay another tenant."""

from functions.catalogue import read_catalogue
from local.emulators.sns_stand_in import Rule
from tests.faults.moments import DELIVERY
from tests.support.fault_stack.bench import Bench, Sent
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.population import DEVICES_A_USER, OTHER_CLUB
from tests.support.until import until

LARGE, SMALL, CHUNK = 2_000, 240, 40


def broadcasts_side_by_side(bench: Bench, _: Send) -> None:
    """When a broadcast queued after another tenant's larger one ends, about as much of the larger one has been sent.

    Without leases the ids of both tenants would select the same queue. The test compares positions in the provider's
    log.
    """
    users = bench.population.grow(SMALL, OTHER_CLUB)
    bench.stack.sns.answer(Rule(code="slow", delay_s=0.2))
    before = bench.records(*DELIVERY)
    large = bench.emit(bench.shared[:LARGE], chunk=CHUNK)
    until("the first is queued", lambda: bench.records(*DELIVERY) >= before + LARGE // CHUNK, every_s=0.05)
    small = bench.emit(users, chunk=CHUNK, club_id=OTHER_CLUB)
    until("the other is queued", lambda: bench.records(*DELIVERY) >= before + (LARGE + SMALL) // CHUNK, every_s=0.05)
    already = len(_places(bench, large))
    until("the other is sent", lambda: len(_places(bench, small)) >= len(small.pairs))
    last = max(_places(bench, small))
    bench.stack.sns.clear()
    meanwhile = sum(place < last for place in _places(bench, large)) - already
    # One batch was in progress when the second broadcast arrived, and one runs in parallel with its last records.
    in_flight = 2 * _BATCH * CHUNK * DEVICES_A_USER
    most = len(small.pairs) + in_flight
    assert len(large.pairs) - already > most, f"{already} of the first were sent before the other was queued"
    assert meanwhile <= most, (
        f"{meanwhile} of the first were sent before {len(small.pairs)} of the other: at most {most}"
    )


def _places(bench: Bench, sent: Sent) -> list[int]:
    """Return the positions of a send's pushes in the provider's log."""
    pairs = sent.pairs
    received = bench.stack.sns.received()
    return [place for place, each in enumerate(received) if (each.notification_id, each.endpoint) in pairs]


def _batch_size() -> int:
    [delivery] = [entry for entry in read_catalogue(generation="g1") if entry.name == "delivery"]
    assert delivery.event_source is not None
    return delivery.event_source.batch_sizes["delivery"]


_BATCH = _batch_size()
