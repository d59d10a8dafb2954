"""Lines of each operational metric, and the report of a function host."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.emulators.prometheus import FUNCTION_COUNTS, FUNCTION_GAUGES, MAPPING_COUNTS, Latencies, Sends
from masscomm.domain.latencies import bin_of
from masscomm.domain.send_states import SendState
from masscomm.observability import metrics
from masscomm.observability.metric_names import ALL
from masscomm.stores.metrics.port import Latencies as StoredLatencies
from masscomm.stores.metrics.port import LatencyRow

HOST_STATUS: Mapping[str, Any] = {
    "functions": {"delivery": dict.fromkeys((*FUNCTION_COUNTS, *FUNCTION_GAUGES), 1)},
    "mappings": {"delivery": dict.fromkeys(MAPPING_COUNTS, 1)},
}


SENDS = Sends(lambda _start, _limit: dict.fromkeys(SendState, 1))
LATENCIES = Latencies(
    lambda query: StoredLatencies([LatencyRow(query.start, ("push", "sent"), {bin_of(700): 9, bin_of(4_000): 1})], None)
)


def write_every_metric(log: Path) -> None:
    """Append a line with each metric of the vocabulary, as a function writes it."""
    line = metrics.embedded(dict.fromkeys(ALL, 5), {"service": "s", "environment": "local"}, {"lane": "bulk"}, now_ms=1)
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
