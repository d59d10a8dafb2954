"""The directory over OpenSearch: the monolith's tables as cdc_consumer writes them, merged with the index device_state.

Tables are read through aliases. An alias points to the index of a snapshot generation only while that index is
complete. A table without an alias is not ready, whatever its index contains. `confirm` proves that the generation
behind the aliases is complete up to a time. Every response names its index; a response from another generation
invalidates the proof. Users and settings are read by id, in real time. Devices and templates are read by search, which
can be one refresh interval (1 s) behind unless `confirm` has just refreshed the indices.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from masscomm import environment
from masscomm.cdc.captured_tables import DEVICES, TEMPLATES, USERS, captured_tables, settings_tables
from masscomm.cdc.completeness import Completeness
from masscomm.cdc.progress import CdcProgress, KafkaCdcProgress
from masscomm.clock import Clock, SystemClock
from masscomm.directory import device_states, documents, generations
from masscomm.directory.bulk_writes import answering, connect_from_environment
from masscomm.directory.client import OpenSearch
from masscomm.directory.documents import Read, Source
from masscomm.directory.layers import layers_in, related_documents
from masscomm.directory.members import (
    UsersPage,
    counts_of_members,
    pages_of_followers,
    pages_of_members,
    pages_of_users,
)
from masscomm.directory.person import DeviceRead, Person, person_documents, person_in
from masscomm.directory.port import MOST_COMPARED, Layers, MembersCount, MembersPage, Related, TemplateQuery
from masscomm.domain import preference_changes, suppressions
from masscomm.domain.memberships import kind_and_object
from masscomm.domain.phone_ends import PHONE_END
from masscomm.domain.source_tables import MEMBERSHIPS
from masscomm.domain.time_limits import DIRECTORY_WAIT_S
from masscomm.domain.users import Device, DirectoryPosition, Template, User, UserSettings
from masscomm.errors import Retry, Stop
from masscomm.observability.unreadable_items import read_each

if TYPE_CHECKING:
    from masscomm.domain.audiences import Audience

_KEYS_A_SEARCH = 100
# Matches the templates for every club.
_EVERY_CLUB: Mapping[str, Any] = {"bool": {"must_not": [{"exists": {"field": "club_id"}}]}}
# How long OpenSearch keeps a point in time after its last page: longer than the caller takes for a page.
_SNAPSHOT_KEPT = "2m"


class OpenSearchDirectory:
    """Implements masscomm.directory.port.Directory with OpenSearch; `confirm` also queries Kafka.

    Args:
        client: The OpenSearch client.
        progress: Returns the progress of change data capture for a snapshot generation.
        clock: The clock that measures confirm's deadline.
        wait_s: Returns the seconds that `confirm` may wait for change data capture before it raises Retry. A function
            with a shorter deadline of its own returns that one.
        clock_skew_ms: How far a sender's clock may be behind the database's clock. A user created within this time
            before a send is not confirmed as missing. The default of a quarter of a second is far more than the skew
            under NTP.
        slice_size: The number of ids in one request. While such a request runs in OpenSearch, the look-up for a
            one-time password waits for it.
        page_size: The number of documents in one page of search results.
    """

    def __init__(
        self,
        client: OpenSearch,
        *,
        progress: Callable[[str], CdcProgress],
        clock: Clock,
        wait_s: Callable[[], float] = lambda: DIRECTORY_WAIT_S,
        clock_skew_ms: int = 250,
        slice_size: int = 250,
        page_size: int = 2_000,
    ) -> None:
        self._client = client
        self._clock = clock
        self._wait_s = wait_s
        self._slice_size = slice_size
        self._page_size = page_size
        # The confirmed snapshot generation, and the position up to which it is complete.
        self._confirmed: tuple[str, DirectoryPosition] | None = None
        self._completeness = Completeness(
            position=self._position_of, progress=cache(progress), clock=clock, clock_skew_ms=clock_skew_ms
        )

    @classmethod
    def from_environment(cls) -> Self:
        """Return the directory for OPENSEARCH_URL and KAFKA_BOOTSTRAP_SERVERS. It connects at the first look-up.

        Raises:
            Stop: A variable is missing.
        """
        return cls(
            connect_from_environment(),
            progress=KafkaCdcProgress.from_environment,
            clock=SystemClock(),
            clock_skew_ms=environment.whole_number("CDC_CLOCK_SKEW_MS", 250),
        )

    def users(self, user_ids: Sequence[int]) -> dict[int, User]:
        return documents.users_in(self._by_id([(USERS, user_id) for user_id in dict.fromkeys(user_ids)]))

    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]:
        tables = (*settings_tables(), preference_changes.INDEX)
        wanted = [(table, user_id) for user_id in dict.fromkeys(user_ids) for table in tables]
        return documents.merged_settings(self._by_id(wanted, tables=len(tables)))

    def users_and_settings(self, user_ids: Sequence[int]) -> tuple[dict[int, User], dict[int, UserSettings]]:
        tables = (USERS, *settings_tables(), preference_changes.INDEX)
        wanted = [(table, user_id) for user_id in dict.fromkeys(user_ids) for table in tables]
        found = self._by_id(wanted, tables=len(tables))
        return documents.users_in(found), documents.merged_settings(found)

    def users_and_layers(
        self, user_ids: Sequence[int], club_ids: Collection[int], related: Related = MappingProxyType({})
    ) -> Layers:
        return self._layers((USERS, *settings_tables(), preference_changes.INDEX), user_ids, club_ids, related)

    def layers(
        self, user_ids: Sequence[int], club_ids: Collection[int], related: Related = MappingProxyType({})
    ) -> Layers:
        return self._layers((*settings_tables(), preference_changes.INDEX), user_ids, club_ids, related)

    def _layers(
        self, tables: Sequence[str], user_ids: Sequence[int], club_ids: Collection[int], related: Related
    ) -> Layers:
        ids = dict.fromkeys(user_ids)
        wanted: list[tuple[str, int | str]] = [(table, user_id) for user_id in ids for table in tables]
        wanted += related_documents(ids, related)
        for_each = -(-len(wanted) // max(1, len(ids)))
        return layers_in(self._by_id(wanted, tables=for_each, first=documents.tenant_documents(club_ids)))

    def members_of_club(self, club_id: int, audience: "Audience", *, after: int = 0) -> Iterator[MembersPage]:
        return pages_of_members(self._candidates(club_id, audience, after), audience, self)

    def count_members(self, club_id: int, audience: "Audience", channels: Sequence[str]) -> Iterator[MembersCount]:
        return counts_of_members(self._candidates(club_id, audience, 0), audience, channels, self)

    def _candidates(self, club_id: int, audience: "Audience", after: int) -> Iterator[UsersPage]:
        """Return pages of the users of a club that are compared with an audience."""
        if audience.follows is None:
            return pages_of_users(self._users_of_club(club_id, after))
        return pages_of_followers(self._followers(club_id, audience.follows, after), club_id, self.users)

    def _users_of_club(self, club_id: int, after: int) -> Iterator[list[User]]:
        """Yield pages of the users of a club, in the order of their ids and as they were at one moment."""
        query = {"filter": [{"term": {"club_id": club_id}}]}  # guard: audiences.own_tenant
        for rows in self._pages_at_one_moment(USERS, query, after=after):
            yield list(read_each(rows, _user_in, store=USERS, key=_key_of))

    def _followers(self, club_id: int, follows: str, after: int) -> Iterator[list[int]]:
        """Yield pages of the users who follow an object, in the order of their ids and as they were at one moment."""
        kind, name = kind_and_object(follows)
        filters: list[dict[str, Any]] = [{"term": {"kind": kind}}, {"term": {"object": name}}]
        if "club_id" in captured_tables()[MEMBERSHIPS].source.columns:
            # Equal objects of other tenants are not read.
            filters.append({"term": {"club_id": club_id}})
        for rows in self._pages_at_one_moment(MEMBERSHIPS, {"filter": filters}, after=after, by="user_id"):
            yield [hit["_source"]["user_id"] for hit in rows]

    def _pages_at_one_moment(
        self, table: str, query: Mapping[str, Any], *, after: int, by: str = "id"
    ) -> Iterator[list[dict[str, Any]]]:
        with answering("a refresh"):
            refreshed = self._client.indices.refresh(index=table)
            # The point in time belongs to one snapshot generation, although the alias may move meanwhile.
            snapshot = self._client.create_pit(index=table, params={"keep_alive": _SNAPSHOT_KEPT})["pit_id"]
        if refreshed.get("_shards", {}).get("failed") != 0:
            raise Retry("OpenSearch has not refreshed every shard")
        try:
            yield from self._pages(table, query, after=after, snapshot=snapshot, by=by)
        finally:
            # It would also end by itself.
            with suppress(Retry, Stop), answering("the end of a point in time"):
                self._client.delete_pit(body={"pit_id": [snapshot]})

    def list_users(self, club_id: int, *, after: int = 0, limit: int) -> list[User]:
        query = {"filter": [{"term": {"club_id": club_id}}]}  # guard: tenancy.listed_users
        pages = self._pages(USERS, query, after=after, page_size=limit)
        found = (user for page in pages for user in read_each(page, _user_in, store=USERS, key=_key_of))
        return list(islice(found, limit))

    def users_by_phone_ends(self, ends: Collection[str]) -> list[User]:
        with answering("a refresh"):
            self._client.indices.refresh(index=USERS)
        query = {"filter": [{"terms": {PHONE_END: sorted(ends)}}]}
        page = next(self._pages(USERS, query, page_size=MOST_COMPARED), [])
        return list(read_each(page, _user_in, store=USERS, key=_key_of))

    def person(self, user_id: int, now_ms: int) -> Person | None:
        tables = (USERS, *settings_tables(), preference_changes.INDEX)
        found = self._by_id([(table, user_id) for table in tables], tables=len(tables))
        user = documents.users_in(found)
        if user_id not in user:
            return None
        query = {"filter": [{"term": {"user_id": user_id}}, {"term": {"active": True}}]}
        ids = [int(hit["_id"]) for page in self._pages(DEVICES, query) for hit in page]
        name = suppressions.id_of(user[user_id].club_id, user[user_id].email or "")
        wanted = [(table, str(id_)) for id_ in ids for table in (DEVICES, device_states.INDEX)]
        layers = person_documents(user_id, user[user_id].club_id)
        named = [(suppressions.INDEX, name), *layers]
        rows = self._by_id([*wanted, *named], tables=3)
        devices = [
            DeviceRead(id_, row, rows.get((device_states.INDEX, str(id_))))
            for id_ in ids
            # A row may have changed since the search.
            if (row := rows.get((DEVICES, str(id_)))) is not None
            and (row[0].get("user_id"), row[0].get("active")) == (user_id, True)
        ]
        of_tenants = {each: rows[each] for each in layers if each in rows}
        return person_in(user_id, found, devices, rows.get((suppressions.INDEX, name)), of_tenants, now_ms)

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        found: dict[int, list[Device]] = {user_id: [] for user_id in user_ids}
        rows: list[_DeviceRow] = []
        for ids in _slices(list(found), self._slice_size):
            query = {"filter": [{"terms": {"user_id": ids}}, {"term": {"active": True}}]}
            for hits in self._pages(DEVICES, query):
                rows += read_each(hits, _device_row, store=DEVICES, key=_key_of)
        states = self._by_id([(device_states.INDEX, row.device_id) for row in rows])

        def device_of(row: _DeviceRow) -> Device:
            document, *_ = states.get((device_states.INDEX, row.device_id), ({}, 0, ""))
            return documents.device(row.device_id, row.source, document, generation=row.generation)

        for device in read_each(rows, device_of, store=DEVICES, key=lambda row: {"id": str(row.device_id)}):
            if device.user_id not in found:
                raise Retry("OpenSearch returned a device of a user that was not in the search")
            found[device.user_id].append(device)
        return found

    def suppressed(self, club_id: int, addresses: Sequence[str], now_ms: int) -> set[str]:
        names = dict.fromkeys(suppressions.id_of(club_id, address) for address in addresses)
        found = self._by_id([(suppressions.INDEX, name) for name in names])
        sources = {name: source for (_, name), (source, *_) in found.items()}
        return suppressions.suppressed(club_id, addresses, sources, now_ms)

    def templates(self, keys: Sequence[tuple[int, str, str]]) -> dict[tuple[int, str, str], list[Template]]:
        found: dict[tuple[int, str, str], list[Template]] = {key: [] for key in keys}
        for some in _slices(list(found), _KEYS_A_SEARCH):
            query = {"should": [_template_query(*key) for key in some], "minimum_should_match": 1}
            for template in self._templates(query):
                for key in some:
                    club_id, category, channel = key
                    if template.club_id in (club_id, None) and (template.type, template.channel) == (category, channel):
                        found[key].append(template)
        return found

    def list_templates(self, query: TemplateQuery) -> list[Template]:
        filters: list[dict[str, Any]] = [{"terms": {"type": list(query.types)}}] if query.types else []
        if query.channels:
            filters.append({"terms": {"channel": list(query.channels)}})
        if query.club_ids is not None:  # guard: tenancy.listed_templates
            own = {"terms": {"club_id": list(query.club_ids)}}
            filters.append({"bool": {"should": [own, _EVERY_CLUB], "minimum_should_match": 1}})
        found = self._templates({"filter": filters}, after=query.after, page_size=query.limit)
        return list(islice(found, query.limit))

    def await_changes(self, user_id: int, version: int) -> None:
        """Return at once: a look-up by id sees every acknowledged write."""

    def confirm(self, ts_ms: int) -> DirectoryPosition:
        if (confirmed := self._confirmed) is not None and self.is_confirmed(ts_ms):
            return confirmed[1]
        deadline = self._clock.monotonic() + self._wait_s()
        generation = self._answering_generation()  # guard: directory.answering_generation
        position = self._completeness.prove(generation, ts_ms, deadline=deadline)
        with answering("a refresh"):
            answer = self._client.indices.refresh(index=f"{DEVICES}-{generation},{TEMPLATES}-{generation}")
        if answer.get("_shards", {}).get("failed") != 0:
            raise Retry("OpenSearch has not refreshed every shard")
        self._confirmed = generation, position
        return position

    def is_confirmed(self, ts_ms: int) -> bool:
        confirmed = self._confirmed
        return confirmed is not None and self._completeness.covers(confirmed[1], ts_ms)

    def position(self) -> DirectoryPosition | None:
        confirmed = self._confirmed
        return None if confirmed is None else confirmed[1]

    def _answering_generation(self) -> str:
        """Return the snapshot generation that all aliases point to. Raises Retry if they point to none or to
        several.
        """
        with answering("the aliases"):
            found = self._client.indices.get_alias(name=",".join(captured_tables()))
        names: set[str] = {
            index.removeprefix(f"{alias}-")
            for index, entry in found.items()
            for alias in entry["aliases"]
            if alias in captured_tables()
        }
        if len(names) != 1:
            raise Retry(f"the directory is not ready: its aliases point to {sorted(names)}")
        return names.pop()

    def _answered_by(self, indices: Iterable[Any]) -> None:
        """Check which indices a response came from. Raises Retry if they belong to another snapshot generation than
        the confirmed one.
        """
        confirmed = self._confirmed
        if confirmed is None:
            return
        for index in set(indices):
            table, _, generation = str(index).partition("-")
            if table in captured_tables() and generation != confirmed[0]:  # guard: directory.one_generation
                self._confirmed = None
                raise Retry(f"look-ups are answered by {index}, and {confirmed[0]} was confirmed")

    def _position_of(self, generation: str) -> DirectoryPosition | None:
        """Return the newest heartbeat that cdc_consumer has stored for a generation; None if there is none yet."""
        found = self._by_id([(generations.INDEX, f"position-{generation}")])
        return next((DirectoryPosition(lsn=row["lsn"], ts_ms=row["ts_ms"]) for row, *_ in found.values()), None)

    def _by_id[I: int | str](
        self, wanted: Sequence[tuple[str, I]], *, tables: int = 1, first: Sequence[tuple[str, I]] = ()
    ) -> dict[tuple[str, I], Read]:
        """Return (index or alias, id) → (row, version, index) for the documents that exist and are not deleted. Deleted
        settings are included: their version tells which changes through masscomm are older.

        The ids are split so that a request has at most `slice_size` ids for each table.

        Args:
            tables: The number of tables.
            first: A few more documents, in the first of these requests; it is sent if there are ids.
        """
        found: dict[tuple[str, I], Read] = {}
        for some in _slices(wanted, self._slice_size * tables, first):
            body = {"docs": [{"_index": index, "_id": str(name)} for index, name in some]}
            with answering("a look-up by id"):
                # Whole documents are fetched; they contain only mapped columns. Filtering their columns takes
                # OpenSearch ten times as long (measured).
                answer = self._client.mget(body=body)
            answers = answer.get("docs") if isinstance(answer, dict) else None
            if not isinstance(answers, list) or len(answers) != len(some):
                raise Retry("OpenSearch answered a look-up without a document for each id")
            self._answered_by(document.get("_index") for document in answers if isinstance(document, dict))
            for (index, name), document in zip(some, answers, strict=True):
                read = _read(index, str(name), document)
                if read is not None and documents.is_answered(index, read[0]):
                    found[index, name] = read
        return found

    def _templates(
        self, query: Mapping[str, Any], *, after: int | None = None, page_size: int | None = None
    ) -> Iterator[Template]:
        """Yield all templates that match a bool query and are not deleted, in the order of their ids."""
        for page in self._pages(TEMPLATES, query, after=after, page_size=page_size):
            yield from read_each(page, _template_in, store=TEMPLATES, key=_key_of)

    def _pages(
        self,
        index: str,
        query: Mapping[str, Any],
        *,
        after: int | None = None,
        page_size: int | None = None,
        snapshot: str | None = None,
        by: str = "id",
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield pages of all documents that match a bool query and are not deleted, in the order of their ids.

        Whole documents are fetched: filtering their columns takes OpenSearch twice as long (measured).

        Args:
            after: Only documents with a higher id.
            snapshot: A point in time of the index that is searched; None: the index at present.
            by: The column of the ids.
        """
        body: dict[str, Any] = {
            "query": {"bool": {**query, "must_not": [{"term": {"deleted": True}}]}},
            "sort": [{by: "asc"}],
            "size": page_size or self._page_size,
            "track_total_hits": False,
        }
        if after is not None:
            body["search_after"] = [after]
        if snapshot is not None:
            body["pit"] = {"id": snapshot, "keep_alive": _SNAPSHOT_KEPT}
        where: dict[str, Any] = {"index": index, "allow_partial_search_results": False} if snapshot is None else {}
        is_first = True
        while True:
            with answering(f"a search of {index}"):
                answer = self._client.search(body=body, **where)
            hits = _hits(index, answer)
            self._answered_by(hit.get("_index") for hit in hits)
            if not hits and is_first and self._confirmed is not None:
                # A search response without hits does not name its index. A look-up by id does, even for a missing
                # document.
                self._by_id([(index, 0)])
            is_first = False
            if hits:
                yield hits
            if len(hits) < body["size"]:
                return
            body["search_after"] = hits[-1]["sort"]


def _read(index: str, name: str, document: Any) -> Read | None:
    """Return (row, version, index) of a document in a response to a look-up; None if it is missing. Raises Retry if
    the response has an error.
    """
    if not isinstance(document, dict) or document.get("_id") != name:
        raise Retry(f"OpenSearch answered a look-up in {index} with another document than {name}")
    if "error" in document:
        kind = (document["error"] or {}).get("type")  # guard: directory.error_is_no_absence
        if kind == "index_not_found_exception":
            raise Retry(f"the directory is not ready: there is no {index}")
        raise Retry(f"OpenSearch could not look up {name} in {index}: {kind}")
    if document.get("found") is False:
        return None
    source, version = document.get("_source"), document.get("_version")
    if document.get("found") is not True or not isinstance(source, dict) or not isinstance(version, int):
        raise Retry(f"OpenSearch answered a look-up of {name} in {index} with half a document")
    return source, version, str(document.get("_index"))


def _hits(index: str, answer: Any) -> list[dict[str, Any]]:
    """Return the documents of a search response. Raises Retry if a shard of the index did not respond."""
    try:
        whole = answer["timed_out"] is False and answer["_shards"]["failed"] == 0
        hits = answer["hits"]["hits"]
    except (KeyError, TypeError) as error:
        raise Retry(f"OpenSearch answered a search of {index} with something else") from error
    if not whole or not isinstance(hits, list):  # guard: directory.partial_search
        raise Retry(f"OpenSearch answered a search of {index} only in part")
    return hits


def _template_query(club_id: int, category: str, channel: str) -> dict[str, Any]:
    return {
        "bool": {
            "filter": [
                {"term": {"type": category}},
                {"term": {"channel": channel}},
                {"bool": {"should": [{"term": {"club_id": club_id}}, _EVERY_CLUB]}},
            ]
        }
    }


def _slices[T](items: Sequence[T], size: int, first: Sequence[T] = ()) -> Iterator[Sequence[T]]:
    """Yield the items in slices, the first one after a few more."""
    for start in range(0, len(items), size):
        some = items[start : start + size]
        yield some if start else [*first, *some]


def _key_of(hit: Mapping[str, Any]) -> dict[str, str]:
    return {"id": str(hit["_id"])}


def _user_in(hit: Mapping[str, Any]) -> User:
    return documents.user(int(hit["_id"]), hit["_source"])


class _DeviceRow(NamedTuple):
    device_id: int
    generation: str
    source: Source


def _device_row(hit: Mapping[str, Any]) -> _DeviceRow:
    return _DeviceRow(int(hit["_id"]), hit["_index"].removeprefix(f"{DEVICES}-"), hit["_source"])


def _template_in(hit: Mapping[str, Any]) -> Template:
    return documents.template(int(hit["_id"]), hit["_source"])
