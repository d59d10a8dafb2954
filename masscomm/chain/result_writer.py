"""Stores the results of small sends concurrently with the flush of a batch, so that readers see them before the metrics
job has counted them.

A result that is not stored is counted and logged. It holds nothing back: its outcome record has it.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import batched
from typing import Self

from masscomm import environment
from masscomm.domain.send_results import SendResult
from masscomm.domain.time_limits import RESULTS_PUT_S
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import RESULTS_NOT_STORED
from masscomm.stores.send_results.port import SETTING, SETTINGS, SendResults

logger = logs.logger("masscomm")

# The number of concurrent puts, and of results in each: the items of one BatchWriteItem.
_THREADS, _RESULTS_A_PUT = 4, 25


@dataclass(frozen=True, kw_only=True)
class ResultWriter:
    """Stores results. Each function environment has one instance."""

    results: SendResults
    pool: Executor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS, thread_name_prefix="results"))

    @classmethod
    def from_environment(cls) -> Self | None:
        """Return the writer to DynamoDB; None if results are switched off. Raises Stop for an unknown setting."""
        if environment.choice(SETTING, SETTINGS) != SETTINGS[0]:
            return None
        # Imported here: a function that emits no outcome does not need it.
        from masscomm.stores.send_results.dynamodb import DynamoDbSendResults

        return cls(results=DynamoDbSendResults.from_environment())

    def begin(self, results: Iterable[SendResult]) -> Callable[[], None]:
        """Begin to store results. Return a function that waits for the end, but not long."""
        puts = {
            self.pool.submit(self.results.put, some): len(some)
            for some in batched(results, _RESULTS_A_PUT, strict=False)
        }
        return partial(_finish, puts)


def _finish(puts: Mapping[Future[None], int]) -> None:
    """Wait for puts, given with their numbers of results. Count the results of those that failed or take too long."""
    if not puts:
        return
    done, late = wait(puts, timeout=RESULTS_PUT_S)
    for put in late:
        put.cancel()
    errors = [repr(error) for put in done if (error := put.exception()) is not None]
    lost = sum(count for put, count in puts.items() if put in late or put.exception() is not None)
    if lost:
        metrics.add(RESULTS_NOT_STORED, lost)
        logger.warning("results are not readable until they are counted", results=lost, errors=errors)
