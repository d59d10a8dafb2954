"""Compares the documents in OpenSearch with the monolith's tables, and measures how long a change takes to arrive."""

import json
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import batched
from typing import Any

import httpx
import psycopg

from examples.monolith.rows import TABLES, compared_rows, set_category, settings_of
from local.devstack.demo.waiting import DemoError, Pending
from masscomm.directory.device_states import INDEX as DEVICE_STATE
from masscomm.directory.device_states import state_in
from masscomm.domain.preference_changes import INDEX

SLICE = 1_000
CHANGE_TIMEOUT_S = 20.0


def next_minute(seconds: float) -> datetime:
    """Return the first whole minute that is at least this many seconds in the future."""
    minute = (time.time() + seconds) // 60 + 1
    return datetime.fromtimestamp(minute * 60, UTC)


class Directory:
    """Compares the OpenSearch indices with the tables they were made from. Every method may raise httpx.HTTPError."""

    def __init__(self, opensearch_url: str, generation: str) -> None:
        self._generation = generation
        self._client = httpx.Client(base_url=opensearch_url, timeout=30, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def forget_changes(self) -> None:
        """Delete all changes of preferences through masscomm, which the rows of the seed do not have."""
        body: dict[str, Any] = {"query": {"match_all": {}}}
        parameters = {"refresh": "true", "conflicts": "proceed"}
        self._client.post(f"/{INDEX}/_delete_by_query", json=body, params=parameters).raise_for_status()

    def progress(self, rows: dict[str, int]) -> Pending | None:
        """Return how many rows of each table are indexed; None when all are and the snapshot is marked as complete."""
        found = {table: self._count(table) for table in TABLES}
        missing = [
            f"{rows[table] - found[table]:,} of {rows[table]:,} {table}"
            for table in TABLES
            if found[table] < rows[table]
        ]
        if missing:
            done = sum(min(found[table], rows[table]) for table in TABLES)
            return Pending(", ".join(missing), done, sum(rows.values()))
        if not self.is_complete():
            return Pending("the mark that the snapshot is complete")
        return None

    def differing(self, connection: psycopg.Connection[Any]) -> Pending | None:
        """Return the rows whose document is absent or different; None if every document equals its row."""
        different, total = [], 0
        for table, (_, columns) in TABLES.items():
            rows = compared_rows(connection, table)
            total += len(rows)
            documents = dict(self._documents(table, rows))
            different += [
                f"{table} {number}"
                for number, row in rows.items()
                if (found := documents.get(number)) is None or tuple(found.get(name) for name in columns) != row
            ]
        if not different:
            return None
        return Pending(f"{', '.join(different[:3])}{' …' if len(different) > 3 else ''}", total - len(different), total)

    def behind(self, connection: psycopg.Connection[Any], user_id: int) -> Pending | None:
        """Return whether a user's settings in OpenSearch still differ from the table's row; None if they are equal."""
        row = settings_of(connection, user_id)
        document = self._document("user_settings", user_id) or {}
        if row is not None and row == tuple(map(document.get, ("channels", "categories", "quiet_hours"))):
            return None
        return Pending(f"the settings of user {user_id}")

    def endpoints(self, device_ids: Iterable[int]) -> dict[int, str]:
        """Return the endpoint ARNs of the given devices; devices without an endpoint are omitted."""
        documents = self._documents(DEVICE_STATE, device_ids)
        states = ((number, state_in(document, self._generation)) for number, document in documents)
        return {number: state["endpoint_arn"] for number, state in states if state.get("endpoint_arn")}

    def enabled(self, device_ids: Iterable[int]) -> set[int]:
        """Return those of the given devices that get pushes according to their states."""
        documents = self._documents(DEVICE_STATE, device_ids)
        states = ((number, state_in(document, self._generation)) for number, document in documents)
        return {number for number, state in states if state.get("endpoint_arn") and state.get("enabled")}

    def change_latency_ms(self, connection: psycopg.Connection[Any], user_id: int, round_: int) -> float:
        """Change the settings of a user; return the milliseconds from the commit until OpenSearch returns the
        change.

        The change concerns a listed category without sends, so that it affects no decision.

        Args:
            connection: A connection to the monolith's database, in autocommit mode.
            user_id: The id of the user.
            round_: The number of the change; the value of the setting alternates.

        Raises:
            DemoError: The change is not in OpenSearch within CHANGE_TIMEOUT_S.
        """
        set_category(connection, user_id, "security_alert", wanted=round_ % 2 == 0)
        committed = time.perf_counter()
        while time.perf_counter() - committed < CHANGE_TIMEOUT_S:
            document = self._document("user_settings", user_id) or {}
            if (document.get("categories") or {}).get("security_alert") is (round_ % 2 == 0):
                return (time.perf_counter() - committed) * 1000
            time.sleep(0.001)  # The loop pauses because OpenSearch shares the processors with it.
        raise DemoError(f"a change of user {user_id}'s settings is not in OpenSearch after {CHANGE_TIMEOUT_S:.0f} s")

    def is_complete(self) -> bool:
        """Return whether the snapshot is marked as complete: look-ups are not answered before."""
        answer = self._client.get(f"/directory_state/_doc/generation-{self._generation}")
        return answer.status_code == httpx.codes.OK and answer.json()["_source"].get("complete") is True

    def _count(self, table: str) -> int:
        query = {"query": {"bool": {"must_not": {"term": {"deleted": True}}}}}
        answer = self._client.post(f"/{self._index(table)}/_count", json=query)
        return int(answer.raise_for_status().json()["count"])

    def _document(self, table: str, number: int) -> dict[str, Any] | None:
        answer = self._client.get(f"/{self._index(table)}/_doc/{number}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        source: dict[str, Any] = answer.raise_for_status().json()["_source"]
        return source

    def _documents(self, table: str, numbers: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Return the documents that exist and are not deleted, by id. Reads by id do not wait for an index refresh."""
        for some in batched(numbers, SLICE, strict=False):
            answer = self._client.post(f"/{self._index(table)}/_mget", json={"ids": [str(number) for number in some]})
            for document in json.loads(answer.raise_for_status().content)["docs"]:
                if document.get("found") and not document["_source"].get("deleted"):
                    yield int(document["_id"]), document["_source"]

    def _index(self, table: str) -> str:
        return f"{table}-{self._generation}" if table in TABLES else table
