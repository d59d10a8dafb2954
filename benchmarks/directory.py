"""Measure the processor time of a look-up, of OpenSearch and of its client: `python -m benchmarks.directory`.

The benchmark starts OpenSearch on a free port and indexes --users users with settings, a device and the device's state.
It then looks up the same users with different forms of request, in turns; forms marked `chosen` are those of
masscomm/directory/opensearch.py. It prints the medians of the rounds in microseconds per user, and their ratio to the
first form for the same rows. MASSCOMM_JVM_OPTIONS adds JVM options: the local servers compile with C1 only, and
`-XX:TieredStopAtLevel=4` compiles as in production.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import batched
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.processor_time import of_process
from devstack.config import GENERATION, StackConfig
from devstack.provision import create_indices
from devstack.stack import Stack
from masscomm.cdc.captured_tables import captured_tables
from masscomm.directory.bulk_writes import VersionedDocument, connect, write
from masscomm.directory.client import OpenSearch

REQUEST_IDS = 250
_TIME = "2026-01-01T00:00:00.000000Z"
_DEVICE_COLUMNS = ["user_id", "platform", "token", "changed_at_ms"]
_USER_COLUMNS = ["club_id", "first_name", "last_name", "email", "phone", "locale", "time_zone", "deleted"]
_SETTINGS_COLUMNS = ["channels", "categories", "quiet_hours", "deleted"]

type Ids = Sequence[int]
type LookUp = Callable[[OpenSearch, Ids], Any]


def forms() -> dict[str, dict[str, LookUp]]:
    """Return the forms of request by name, for each kind of rows."""
    both = {"users": _USER_COLUMNS, "user_settings": _SETTINGS_COLUMNS}
    return {
        "users and settings": {
            "by id, columns": by_id(both),
            "by id, whole (chosen)": by_id(dict.fromkeys(both)),
            "by id, no row": by_id(dict.fromkeys(both, False)),
            "search, up to a refresh old": by_search(*both),
        },
        "devices": {
            "search, columns": of_users(_DEVICE_COLUMNS),
            "search, whole (chosen)": of_users(None),
        },
        "device states": {
            "by id, whole (chosen)": by_id({"device_state": None}),
            "search, up to a refresh old": by_search("device_state"),
        },
    }


def by_id(columns: Mapping[str, Any]) -> LookUp:
    """Return a look-up by id.

    Args:
        columns: The columns to return from each index; None: whole documents, False: no columns.
    """

    def documents(ids: Ids) -> Iterator[dict[str, Any]]:
        for name in ids:
            for index, some in columns.items():
                yield {"_index": index, "_id": str(name)} | ({} if some is None else {"_source": some})

    return lambda client, ids: client.mget(body={"docs": list(documents(ids))})["docs"]


def by_search(*indices: str) -> LookUp:
    """Return a look-up that searches for ids; it does not find documents written since the last refresh."""

    def search(client: OpenSearch, ids: Ids) -> Any:
        body = {
            "query": {"terms": {"_id": list(map(str, ids))}},
            "size": len(ids) * len(indices),
            "track_total_hits": False,
            "sort": ["_doc"],
            "version": True,
        }
        return client.search(index=",".join(indices), body=body)["hits"]["hits"]

    return search


def of_users(columns: Sequence[str] | None) -> LookUp:
    """Return a search for the devices of users, as in OpenSearchDirectory.devices. With columns=None it returns whole
    documents.
    """

    def search(client: OpenSearch, ids: Ids) -> Any:
        body: dict[str, Any] = {
            "query": {
                "bool": {
                    "filter": [{"terms": {"user_id": list(ids)}}, {"term": {"active": True}}],
                    "must_not": [{"term": {"deleted": True}}],
                }
            },
            "sort": [{"id": "asc"}],
            "size": 2_000,
            "track_total_hits": False,
        }
        if columns is not None:
            body["_source"] = columns
        return client.search(index="devices", body=body, allow_partial_search_results=False)["hits"]["hits"]

    return search


def fill(client: OpenSearch, users: int) -> None:
    """Index users with settings, a device and its state, in the format of cdc_consumer and device_registrar."""
    for some in batched(range(1, users + 1), 1_000, strict=False):
        failed = [error for error in write(client, [each for user in some for each in _documents(user)]) if error]
        if failed:
            raise SystemExit(f"OpenSearch refused a document: {failed[0]}")
    client.indices.refresh()


def _documents(user: int) -> Iterator[VersionedDocument]:
    token = "t" * 140 + str(user)
    rows: dict[str, dict[str, Any]] = {
        f"users-{GENERATION}": {
            "id": user,
            "club_id": 7,
            "first_name": f"Name{user}",
            "last_name": f"Last{user}",
            "email": f"user{user}@example.com",
            "phone": f"+49170{user:07}",
            "locale": "de",
            "time_zone": "Europe/Berlin",
            "created_at": _TIME,
            "updated_at": _TIME,
        },
        f"user_settings-{GENERATION}": {
            "user_id": user,
            "club_id": 7,
            "channels": {"push": True, "email": True},
            "categories": {"news": True},
            "quiet_hours": {"start": "22:00", "end": "07:00"},
            "updated_at": _TIME,
        },
        f"devices-{GENERATION}": {
            "id": user,
            "user_id": user,
            "platform": "gcm",
            "token": token,
            "active": True,
            "updated_at": _TIME,
            "changed_at_ms": 1,
        },
        "device_state": {
            "token": token,
            "endpoint_arn": f"arn:aws:sns:eu-central-1:000000000000:endpoint/GCM/masscomm-gcm/{user:036}",
            "enabled": True,
            "reason": None,
            "updated_at": 1,
            "generation": GENERATION,
            "row_version": 1,
        },
    }
    for index, source in rows.items():
        yield VersionedDocument(index=index, id=str(user), version=1, source=source)


def measure(
    client: OpenSearch, server: psutil.Process, users: int, rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """Return the (server, client) processor time in seconds per user for each round, by form. The forms run in
    turns.
    """

    def spent() -> tuple[float, float]:
        return of_process(server), time.process_time()

    kinds = forms()
    found: dict[str, list[tuple[float, float]]] = {f"{kind}: {form}": [] for kind in kinds for form in kinds[kind]}
    for _ in range(rounds):
        for kind, some in kinds.items():
            for form, look_up in some.items():
                before = spent()
                for ids in batched(range(1, users + 1), REQUEST_IDS, strict=False):
                    if len(look_up(client, ids)) % len(ids):
                        raise SystemExit(f"{kind}: {form} did not find each row")
                after = spent()
                found[f"{kind}: {form}"].append(((after[0] - before[0]) / users, (after[1] - before[1]) / users))
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description="Processor time of directory look-ups, by form.")
    arguments.add_argument("--users", type=int, default=10_000)
    arguments.add_argument("--rounds", type=int, default=7)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = StackConfig.on_free_ports(Path(folder))
        with Stack(config, ["opensearch"]) as stack:
            create_indices(config.opensearch_url, GENERATION)
            client = connect(config.opensearch_url)
            actions = [{"add": {"index": f"{table}-{GENERATION}", "alias": table}} for table in captured_tables()]
            client.indices.update_aliases(body={"actions": actions})
            fill(client, chosen.users)
            server = psutil.Process(stack.pid("opensearch"))
            measure(client, server, chosen.users, 2)  # The unmeasured rounds warm up the JVM.
            found = measure(client, server, chosen.users, chosen.rounds)
    table = Table("look-up", "OpenSearch µs", "ratio", "client µs", title="a user")
    first: dict[str, float] = {}
    for name, rounds in found.items():
        of_server, of_client = (statistics.median(times) * 1e6 for times in zip(*rounds, strict=True))
        ratio = of_server / first.setdefault(name.partition(":")[0], of_server)
        table.add_row(name, f"{of_server:.1f}", f"{ratio:.2f}", f"{of_client:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
