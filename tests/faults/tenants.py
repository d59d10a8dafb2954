"""What tenants do to each other."""

from emulators.sns_stand_in import Rule
from functions.catalogue import read_catalogue
from tests.faults.moments import DELIVERY
from tests.support.fault_stack.bench import Bench, Sent
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.population import DEVICES_A_USER, OTHER_CLUB
from tests.support.until import until

LARGE, SMALL, CHUNK = 2_000, 240, 40


def broadcasts_side_by_side(bench: Bench, _: Send) -> None:
    """One tenant's broadcast stands before delivery; another's smaller one, asked for later, ends when as much is done
    of the first as of it.

    By an id alone the two would share a queue. What is compared are places in the provider's log.
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
    # The batch that was under way when the other one came, and the one with which its last records may be.
    in_flight = 2 * _BATCH * CHUNK * DEVICES_A_USER
    most = len(small.pairs) + in_flight
    assert len(large.pairs) - already > most, f"{already} of the first were sent before the other was queued"
    assert meanwhile <= most, (
        f"{meanwhile} of the first were sent before {len(small.pairs)} of the other: at most {most}"
    )


def _places(bench: Bench, sent: Sent) -> list[int]:
    """Where a send's pushes stand in the provider's log."""
    pairs = sent.pairs
    received = bench.stack.sns.received()
    return [place for place, each in enumerate(received) if (each.notification_id, each.endpoint) in pairs]


def _batch_size() -> int:
    [delivery] = [entry for entry in read_catalogue(generation="g1") if entry.name == "delivery"]
    assert delivery.event_source is not None
    return int(delivery.event_source.config["batch_size"])


_BATCH = _batch_size()
