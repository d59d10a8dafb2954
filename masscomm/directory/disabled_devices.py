"""Lists the devices to which nothing is pushed, with the reason that the device registrar stored."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from masscomm.cdc.captured_tables import DEVICES, USERS
from masscomm.directory.bulk_writes import answering
from masscomm.directory.client import OpenSearch
from masscomm.directory.device_states import INDEX as STATES
from masscomm.directory.device_states import some_state, state_in
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import read_each

# The position of a device in the list: the time of its state in ms since the epoch, and OpenSearch's sequence number.
type Position = tuple[int, int]
_STATES_A_SEARCH = 500
# A page and a count examine at most this many states, because the state of a device does not name its club.
MAX_EXAMINED = 10_000


class DisabledReason(StrEnum):
    """The reason why a device is disabled."""

    TAKES_NOTHING = "takes_nothing"  # The provider reported that its endpoint accepts nothing any more.
    INVALID_TOKEN = "invalid_token"  # noqa: S105 - The provider refused the token.
    INVALID_ROW = "invalid_row"  # The monolith's row has no token or no known platform.
    TOKEN_MOVED = "token_moved"  # noqa: S105 - Another user's row has taken the token since then.
    INACTIVE = "inactive"  # The monolith's row says so.
    DELETED = "deleted"  # The monolith has deleted the row.


@dataclass(frozen=True, kw_only=True)
class DisabledDevice:
    device_id: int
    # The user, the club and the platform according to the monolith's rows; None if a row is gone.
    user_id: int | None
    club_id: int | None
    platform: str | None
    reason: str
    # The time of the state, in ms since the epoch.
    since_ms: int
    endpoint_arn: str | None


@dataclass(frozen=True, kw_only=True)
class DisabledPage:
    rows: Sequence[DisabledDevice]
    # The position after which the list continues, else None. A page may have fewer rows than its limit although the
    # list continues.
    next: Position | None


@dataclass(frozen=True, kw_only=True)
class DisabledCounts:
    # (club, reason) → devices.
    devices: Mapping[tuple[int | None, str], int]
    examined: int
    # Whether all disabled devices were examined.
    complete: bool


class DisabledDevices(Protocol):
    """Methods raise Retry (down, slow) or Stop (no permission). `clubs`: devices of these clubs only; without any, of
    every club and of none.
    """

    def page(self, *, clubs: Collection[int], reason: str | None, limit: int, after: Position | None) -> DisabledPage:
        """Return disabled devices, those disabled last first."""
        ...

    def counts(self, *, clubs: Collection[int]) -> DisabledCounts:
        """Count the disabled devices by club and reason, those disabled last first."""
        ...

    def find(self, device_id: int) -> DisabledDevice | None:
        """Return a device; None if it is unknown or not disabled."""
        ...


class _Examined:
    """Pages and counts over an iterator of all disabled devices."""

    def _examine(self, reason: str | None, after: Position | None) -> Iterator[tuple[Position, DisabledDevice]]:
        """Yield the disabled devices after a position, those disabled last first."""
        raise NotImplementedError

    def page(self, *, clubs: Collection[int], reason: str | None, limit: int, after: Position | None) -> DisabledPage:
        rows: list[DisabledDevice] = []
        last = after
        for examined, (position, device) in enumerate(self._examine(reason, after)):
            if len(rows) == limit or examined == MAX_EXAMINED:
                return DisabledPage(rows=rows, next=last)
            if not clubs or device.club_id in clubs:
                rows.append(device)
            last = position
        return DisabledPage(rows=rows, next=None)

    def counts(self, *, clubs: Collection[int]) -> DisabledCounts:
        found: Counter[tuple[int | None, str]] = Counter()
        examined = 0
        for _, device in self._examine(None, None):
            if examined == MAX_EXAMINED:
                return DisabledCounts(devices=found, examined=examined, complete=False)
            examined += 1
            if not clubs or device.club_id in clubs:
                found[device.club_id, device.reason] += 1
        return DisabledCounts(devices=found, examined=examined, complete=True)


class OpenSearchDisabledDevices(_Examined):
    """The states of devices in OpenSearch, with the monolith's rows of devices and users."""

    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def find(self, device_id: int) -> DisabledDevice | None:
        found = self._by_id(STATES, [str(device_id)])
        return next(iter(self._joined(found).values()), None)

    def _examine(self, reason: str | None, after: Position | None) -> Iterator[tuple[Position, DisabledDevice]]:
        of_reason = [] if reason is None else [("term", "reason", reason)]
        body: dict[str, Any] = {
            "query": some_state(("term", "enabled", False), *of_reason),
            # The index has one shard, in which sequence numbers are unique.
            "sort": [{"updated_at": "desc"}, {"_seq_no": "desc"}],
            "size": _STATES_A_SEARCH,
            "track_total_hits": False,
        }
        while True:
            if after is not None:
                body["search_after"] = list(after)
            with answering("a search of device states"):
                hits = self._client.search(index=STATES, body=body)["hits"]["hits"]
            devices = self._joined({hit["_id"]: hit["_source"] for hit in hits})
            for hit in hits:
                after = (hit["sort"][0], hit["sort"][1])
                device = devices.get(hit["_id"])
                if device is not None and reason in (None, device.reason):
                    yield after, device
            if len(hits) < _STATES_A_SEARCH:
                return

    def _joined(self, documents: Mapping[str, Mapping[str, Any]]) -> dict[str, DisabledDevice]:
        """Return the devices that are disabled in the snapshot generation that serves look-ups, by id."""
        found = self._documents(DEVICES, list(documents))
        rows = {document["_id"]: document["_source"] for document in found if document["found"]}
        users = self._by_id(USERS, list({str(row["user_id"]) for row in rows.values() if row.get("user_id")}))

        def device_in(document: Mapping[str, Any]) -> tuple[str, DisabledDevice | None]:
            device_id, generation = document["_id"], document["_index"].removeprefix(f"{DEVICES}-")
            state = state_in(documents[device_id], generation)
            return device_id, None if state["enabled"] else _device(device_id, state, rows.get(device_id, {}), users)

        read = read_each(found, device_in, store=STATES, key=lambda document: {"id": document["_id"]})
        return {device_id: device for device_id, device in read if device is not None}

    def _by_id(self, index: str, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        return {document["_id"]: document["_source"] for document in self._documents(index, ids) if document["found"]}

    def _documents(self, index: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        if not ids:
            return []
        with answering(f"a look-up of {index}"):
            documents = self._client.mget(body={"docs": [{"_index": index, "_id": name} for name in ids]})["docs"]
        if any("found" not in document for document in documents):
            raise Retry(f"OpenSearch could not look up {index}")
        found: list[dict[str, Any]] = documents
        return found


def _device(
    device_id: str, state: Mapping[str, Any], row: Mapping[str, Any], users: Mapping[str, Mapping[str, Any]]
) -> DisabledDevice:
    user_id = row.get("user_id")
    return DisabledDevice(
        device_id=int(device_id),
        user_id=user_id,
        club_id=users.get(str(user_id), {}).get("club_id"),
        platform=row.get("platform"),
        reason=state.get("reason") or "",
        since_ms=state["updated_at"],
        endpoint_arn=state.get("endpoint_arn"),
    )


class InMemoryDisabledDevices(_Examined):
    """Disabled devices in a list, for unit tests."""

    def __init__(self, devices: Sequence[DisabledDevice] = ()) -> None:
        self._devices = list(devices)

    def find(self, device_id: int) -> DisabledDevice | None:
        return next((device for device in self._devices if device.device_id == device_id), None)

    def _examine(self, reason: str | None, after: Position | None) -> Iterator[tuple[Position, DisabledDevice]]:
        numbered = [((device.since_ms, number), device) for number, device in enumerate(self._devices)]
        for position, device in sorted(numbered, key=lambda each: each[0], reverse=True):
            if reason in (None, device.reason) and (after is None or position < after):
                yield position, device
