"""GET /v1/health: the lag of each function, the staleness of the directory, and the number of open dead letters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from masscomm.clock import Clock
from masscomm.domain.categories import optional_categories
from masscomm.http.parameters import Reader, time_of_ms
from masscomm.operations.dead_letter_store import DeadLetterStore
from masscomm.operations.health import Health


class LagRow(TypedDict):
    """The records of a topic that a function has not processed yet."""

    function: str
    topic: str
    records: int


class DirectoryRow(TypedDict):
    """The age of a generation of the directory."""

    generation: str
    heartbeat_at: str | None
    """The time of the newest heartbeat of the monolith's database that cdc_consumer has processed."""
    staleness_s: float | None
    """How old the directory is. null: no heartbeat is known."""


class HealthBody(TypedDict):
    """The health of the installation."""

    lag: list[LagRow]
    """The largest lag first."""
    lag_total: int
    directory: list[DirectoryRow]
    open_dead_letters: int
    """Dead letters that were neither replayed nor discarded."""
    categories_without_unsubscribe: list[str]
    """The categories whose e-mails offer no way to unsubscribe, because the installation has neither the address of the
    route nor a mailbox."""
    generated_at: str


@dataclass(frozen=True)
class HealthRoute:
    health: Health
    dead_letters: DeadLetterStore
    clock: Clock
    # Whether e-mails offer a way to unsubscribe.
    offers_unsubscribe: bool

    def answer(self, parameters: Mapping[str, list[str]]) -> HealthBody:
        """Return the response body. Raises Problem with status 400 for any parameter, or Retry."""
        Reader(parameters).check()
        lags = sorted(self.health.lags(), key=lambda each: (-each.records, each.function, each.topic))
        ages = self.health.directory_ages()
        # guard: unsubscribe.missing_way_out_is_seen
        without_way_out = [] if self.offers_unsubscribe else optional_categories("email")
        now_ms = self.clock.now_ms()
        return {
            "lag": [{"function": each.function, "topic": each.topic, "records": each.records} for each in lags],
            "lag_total": sum(each.records for each in lags),
            "directory": [_row(each.generation, each.heartbeat_at_ms, now_ms) for each in ages],
            "open_dead_letters": self.dead_letters.open_count(),
            "categories_without_unsubscribe": without_way_out,
            "generated_at": time_of_ms(now_ms),
        }


def _row(generation: str, heartbeat_at_ms: int | None, now_ms: int) -> DirectoryRow:
    if heartbeat_at_ms is None:
        return {"generation": generation, "heartbeat_at": None, "staleness_s": None}
    staleness_s = max(0, now_ms - heartbeat_at_ms) / 1000
    return {"generation": generation, "heartbeat_at": time_of_ms(heartbeat_at_ms), "staleness_s": staleness_s}
