"""Release what is due: on its topic first, forgotten then."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import batched

from aws_lambda_powertools import Logger

from masscomm.clock import Clock
from masscomm.producer import Producer
from masscomm.waiting import Waiting, WaitingStore, releasable

# On a released record: what it waited for.
RELEASED = "masscomm.released"
# Claimed, produced and flushed together: few round trips, and little to do again where a sweep dies.
_AT_ONCE = 50
# Kept back from the remaining time for a flush and for telling the store.
_RESERVE_S = 20.0
_FLUSH_S = 15.0


@dataclass(frozen=True, kw_only=True)
class Swept:
    """One sweep: records released, not acknowledged by Kafka, claimed by another sweep; complete: all that was due."""

    released: int = 0
    failed: int = 0
    claimed_by_others: int = 0
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class ReleaseDue:
    """The use case; one for each function environment."""

    store: WaitingStore
    producer: Producer
    clock: Clock
    logger: Logger

    def sweep(self, remaining_s: Callable[[], float]) -> Swept:
        """Release everything due by now. A sweep that ends early, or two at once, do no harm.

        Errors: Retry, Stop.
        """
        released = failed = others = 0
        complete = True
        for group in batched(self.store.due(self.clock.now_ms()), _AT_ONCE, strict=False):
            if remaining_s() < _RESERVE_S:
                complete = False
                break
            mine = [item for item in group if self._may_go(item) and self.store.claim(item, self.clock.now_ms())]
            done = self._produce(mine)
            for item in done:
                self.store.done(item)
            released += len(done)
            failed += len(mine) - len(done)
            others += len(group) - len(mine)
        swept = Swept(released=released, failed=failed, claimed_by_others=others, complete=complete)
        self.logger.info("swept", released=released, failed=failed, claimed_by_others=others, complete=complete)
        return swept

    def _may_go(self, item: Waiting) -> bool:
        """The last look before a topic is written to, whoever put the item there."""
        if item.topic in releasable():
            return True
        self.logger.error("nothing is released to this topic", topic=item.topic, id=item.id)
        return False

    def _produce(self, items: list[Waiting]) -> list[Waiting]:
        """Those that Kafka has; the others come again when their claim has lapsed."""
        done: list[Waiting] = []

        def reporting(item: Waiting) -> Callable[[Exception | None], None]:
            def report(error: Exception | None) -> None:
                if error is None:
                    done.append(item)
                else:
                    self.logger.warning("not released", id=item.id, topic=item.topic, error=str(error))

            return report

        # Critical ones first: they share this sweep with bulk.
        for item in sorted(items, key=lambda item: not item.critical):
            headers = [*item.headers, (RELEASED, item.why.encode())]
            self.producer.produce(item.topic, item.id.encode(), item.value, headers, reporting(item))
        self.producer.flush(_FLUSH_S)
        return done
