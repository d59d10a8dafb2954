"""The directory over directory_state: a service that has the documents in memory, fed from compacted topics.

Every answer is from one snapshot generation, and names it. A generation that replaces the confirmed one invalidates the
proof of `confirm`. The service refuses look-ups while it is behind, so that no answer here is an absence by mistake.
"""

import json
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import batched
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from masscomm import environment, fast_json
from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.pooled_http import PooledHttp
from masscomm.aws.secrets import secret_setting
from masscomm.cdc.captured_tables import DEVICES, USERS, captured_tables, settings_tables
from masscomm.directory import documents
from masscomm.directory.layers import layers_in, related_documents
from masscomm.directory.person import DeviceRead, Person, person_documents, person_in
from masscomm.directory.port import MOST_COMPARED, Layers, MembersCount, MembersPage, Related, TemplateQuery
from masscomm.domain import preference_changes, suppressions
from masscomm.domain.time_limits import DIRECTORY_POLL_S, DIRECTORY_STATE_REQUEST_S, DIRECTORY_WAIT_S
from masscomm.domain.users import Device, DirectoryPosition, Template, User, UserSettings
from masscomm.errors import Retry, Stop
from masscomm.observability.unreadable_items import read_each

if TYPE_CHECKING:
    from masscomm.domain.audiences import Audience

_UNAUTHORISED = 401
_BAD_REQUEST = 400


class StateDirectory:
    """Implements masscomm.directory.port.Directory with directory_state.

    Args:
        urls: The addresses of the service's tasks, each of which has all documents. Another one is asked if one does
            not answer, or is behind.
        token: Returns the token that the service requires. Raises Retry or Stop.
        wait_s: Returns the seconds that `confirm` may wait before it raises Retry.
        clock_skew_ms: As that of OpenSearchDirectory; the service's own must be the same.
        slice_size: The number of ids in one request.
        page_size: The number of members in one page.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: Callable[[], str],
        wait_s: Callable[[], float] = lambda: DIRECTORY_WAIT_S,
        clock_skew_ms: int = 250,
        slice_size: int = 500,
        page_size: int = 2_000,
    ) -> None:
        self._tasks = [
            PooledHttp(
                url,
                connect_s=DIRECTORY_STATE_REQUEST_S,
                read_s=DIRECTORY_STATE_REQUEST_S + DIRECTORY_WAIT_S,
                total_s=DIRECTORY_STATE_REQUEST_S + DIRECTORY_WAIT_S,
                connections=4,
            )
            for url in urls
        ]
        self._read_token = token
        # None: it is read for the next request.
        self._token: str | None = None
        self._wait_s = wait_s
        self._clock_skew_ms = clock_skew_ms
        self._slice_size = slice_size
        self._page_size = page_size
        self._confirmed: tuple[str, DirectoryPosition] | None = None
        # The tasks that have confirmed it. Another one may be behind.
        self._confirmed_by: set[PooledHttp] = set()

    @classmethod
    def from_environment(cls) -> Self:
        """Return the directory for DIRECTORY_STATE_URL (addresses separated by commas) and DIRECTORY_STATE_TOKEN, or
        the secret DIRECTORY_STATE_TOKEN_SECRET_ARN. It connects at the first look-up.

        Raises:
            Stop: A variable is missing.
        """
        urls = [url.strip() for url in environment.required("DIRECTORY_STATE_URL").split(",")]
        return cls(
            # Each environment of a function begins with another task.
            random.sample(urls, len(urls)),
            token=secret_setting("DIRECTORY_STATE_TOKEN"),
            clock_skew_ms=environment.whole_number("CDC_CLOCK_SKEW_MS", 250),
        )

    def users(self, user_ids: Sequence[int]) -> dict[int, User]:
        return documents.users_in(self._by_id((USERS,), user_ids))

    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]:
        tables = (*settings_tables(), preference_changes.INDEX)
        return documents.merged_settings(self._by_id(tables, user_ids))

    def users_and_settings(self, user_ids: Sequence[int]) -> tuple[dict[int, User], dict[int, UserSettings]]:
        tables = (USERS, *settings_tables(), preference_changes.INDEX)
        found = self._by_id(tables, user_ids)
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
        tenants = _by_table(documents.tenant_documents(club_ids))
        return layers_in(self._by_id(tables, user_ids, first=tenants, related=related))

    def members_of_club(self, club_id: int, audience: "Audience", *, after: int = 0) -> Iterator[MembersPage]:
        request = {"club_id": club_id, "after": after, "audience": json.dumps(audience.document)}
        answer = self._answer("members", request)
        found, up_to = answer["user_ids"], answer["up_to"]
        *pages, last = list(batched(found, self._page_size, strict=False)) or [()]
        yield from (MembersPage(page, page[-1]) for page in pages)
        if up_to > after:
            yield MembersPage(last, up_to)

    def count_members(self, club_id: int, audience: "Audience", channels: Sequence[str]) -> Iterator[MembersCount]:
        request = {"club_id": club_id, "audience": json.dumps(audience.document), "channels": list(channels)}
        answer = self._answer("count", request)
        yield MembersCount(answer["examined"], answer["users"], answer["channels"])

    def list_users(self, club_id: int, *, after: int = 0, limit: int) -> list[User]:
        found: list[User] = []
        while True:
            request = {"club_id": club_id, "after": after, "limit": limit}
            rows = self._answer("users", request)["rows"]
            found += read_each(rows, _user, store=USERS, key=_key_of)
            if len(found) >= limit or len(rows) < limit:
                return found[:limit]
            after = rows[-1][0]

    def users_by_phone_ends(self, ends: Collection[str]) -> list[User]:
        rows = self._answer("users-by-phone", {"ends": sorted(ends), "limit": MOST_COMPARED})["rows"]
        return list(read_each(rows, _user, store=USERS, key=_key_of))

    def person(self, user_id: int, now_ms: int) -> Person | None:
        tables = (USERS, *settings_tables(), preference_changes.INDEX)
        ids = [user_id]
        answer = self._answer("look-up", {"tables": dict.fromkeys(tables, ids), "devices_of": ids})
        found = _rows(answer, tables, ids)
        user = documents.users_in(found)
        if user_id not in user:
            return None
        (rows,) = answer["devices_of"]
        devices = [
            DeviceRead(
                id_, (source, version, f"{DEVICES}-{answer['generation']}"), states and (states[1], states[0], "")
            )
            for id_, (version, source), states in rows
        ]
        name = suppressions.id_of(user[user_id].club_id, user[user_id].email or "")
        layers = [
            (table, captured_tables()[table].id_of(id_) if table in captured_tables() else id_)
            for table, id_ in person_documents(user_id, user[user_id].club_id)
        ]
        others = self._by_id((suppressions.INDEX,), [name], first=_by_table(layers))
        of_tenants = {(table, str(id_)): others[table, id_] for table, id_ in layers if (table, id_) in others}
        return person_in(user_id, found, devices, others.get((suppressions.INDEX, name)), of_tenants, now_ms)

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        found: dict[int, list[Device]] = {user_id: [] for user_id in user_ids}
        for ids in batched(found, self._slice_size, strict=False):
            answer = self._answer("look-up", {"devices_of": ids})
            generation = answer["generation"]

            def device_of(row: Any, generation: str = generation) -> Device:
                device_id, (_, source), states = row
                return documents.device(device_id, source, {} if states is None else states[1], generation=generation)

            for user_id, rows in zip(ids, answer["devices_of"], strict=True):
                found[user_id] += read_each(rows, device_of, store="devices", key=_key_of)
        return found

    def suppressed(self, club_id: int, addresses: Sequence[str], now_ms: int) -> set[str]:
        names = [suppressions.id_of(club_id, address) for address in addresses]
        found = self._by_id((suppressions.INDEX,), names)
        sources = {name: source for (_, name), (source, *_) in found.items()}
        return suppressions.suppressed(club_id, addresses, sources, now_ms)

    def templates(self, keys: Sequence[tuple[int, str, str]]) -> dict[tuple[int, str, str], list[Template]]:
        found: dict[tuple[int, str, str], list[Template]] = {key: [] for key in keys}
        # The templates for every club are asked for once.
        asked = dict.fromkeys(each for key in found for each in (key, (None, *key[1:])))
        rows: dict[Any, list[Any]] = {}
        for some in batched(asked, self._slice_size, strict=False):
            rows |= zip(some, self._answer("look-up", {"templates_of": some})["templates_of"], strict=True)
        for key, templates in found.items():
            both = sorted([*rows[key], *rows[None, *key[1:]]])
            templates += read_each(both, _template, store="notification_templates", key=_key_of)
        return found

    def list_templates(self, query: TemplateQuery) -> list[Template]:
        request = {
            "club_ids": None if query.club_ids is None else list(query.club_ids),
            "types": list(query.types),
            "channels": list(query.channels),
            "after": query.after,
            "limit": query.limit,
        }
        rows = self._answer("templates", request)["rows"]
        return list(read_each(rows, _template, store="notification_templates", key=_key_of))

    def await_changes(self, user_id: int, version: int) -> None:
        deadline = time.monotonic() + DIRECTORY_WAIT_S
        answered = 0
        for task in list(self._tasks):
            while (seen := self._sees_changes(task, user_id, version)) is False:
                if time.monotonic() + DIRECTORY_POLL_S > deadline:
                    raise Retry("look-ups do not see the changed preferences yet")
                time.sleep(DIRECTORY_POLL_S)
            answered += seen is not None
        if not answered:
            raise Retry("directory_state did not answer")

    def _sees_changes(self, task: PooledHttp, user_id: int, version: int) -> bool | None:
        """Return whether a task has applied a user's changes; None if it does not answer, because it reads them before
        it answers again.
        """
        table = preference_changes.INDEX
        try:
            (row,) = self._ask_task(task, "look-up", {"tables": {table: [user_id]}})["tables"][table]
        except Retry:
            return None
        return row is not None and row[1]["version"] >= version

    def confirm(self, ts_ms: int) -> DirectoryPosition:
        if (confirmed := self._confirmed) is not None and self.is_confirmed(ts_ms):
            return confirmed[1]
        task, answer = self._ask("confirm", self._confirming(ts_ms))
        position = DirectoryPosition(lsn=answer["lsn"], ts_ms=answer["ts_ms"])
        self._confirmed, self._confirmed_by = (answer["generation"], position), {task}
        return position

    def _confirming(self, ts_ms: int) -> dict[str, Any]:
        return {"ts_ms": ts_ms, "wait_s": min(self._wait_s(), DIRECTORY_WAIT_S)}

    def is_confirmed(self, ts_ms: int) -> bool:
        confirmed = self._confirmed
        return confirmed is not None and confirmed[1].ts_ms - self._clock_skew_ms >= ts_ms

    def position(self) -> DirectoryPosition | None:
        confirmed = self._confirmed
        return None if confirmed is None else confirmed[1]

    def _by_id(
        self,
        tables: Sequence[str],
        ids: Sequence[Any],
        *,
        first: Mapping[str, Sequence[Any]] | None = None,
        related: Related = MappingProxyType({}),
    ) -> dict[tuple[str, Any], documents.Read]:
        """Return (table, id) → (row, version, index) for the documents that `_rows` returns.

        Args:
            tables: The tables of the ids.
            first: A few ids of other tables, in the first request; it is sent if there are ids.
            related: Further documents about the ids, each in the request of its id.
        """
        found: dict[tuple[str, Any], documents.Read] = {}
        few = first or {}
        for some in batched(dict.fromkeys(ids), self._slice_size, strict=False):
            others = {**few, **_by_table(related_documents(some, related))}
            answer = self._answer("look-up", {"tables": {**dict.fromkeys(tables, some), **others}})
            found |= _rows(answer, tables, some)
            for table, of_table in others.items():
                found |= _rows(answer, (table,), of_table)
            few = {}
        return found

    def _answer(self, path: str, body: Mapping[str, Any]) -> Any:
        _, answer = self._ask(path, body)
        return answer

    def _ask(self, path: str, body: Mapping[str, Any]) -> tuple[PooledHttp, Any]:
        """Return the answer of the first task that has one, and this task. Raises Retry or Stop."""
        refusals = []
        for task in list(self._tasks):
            try:
                if path != "confirm":
                    self._confirm_at(task)
                return task, self._ask_task(task, path, body)
            except Retry as error:
                refusals.append(str(error))
                # The next request begins with another task.
                self._tasks = [each for each in self._tasks if each is not task] + [task]
        raise Retry("; ".join(refusals))

    def _confirm_at(self, task: PooledHttp) -> None:
        """Return once a task has come as far as the confirmed position. Raises Retry or Stop."""
        confirmed = self._confirmed
        if confirmed is not None and task not in self._confirmed_by:  # guard: directory_state.confirmed_by_each_task
            self._ask_task(task, "confirm", self._confirming(confirmed[1].ts_ms - self._clock_skew_ms))
            self._confirmed_by.add(task)

    def _ask_task(self, task: PooledHttp, path: str, body: Mapping[str, Any]) -> Any:
        if self._token is None:
            self._token = self._read_token()
        headers = {"content-type": "application/json", "authorization": f"Bearer {self._token}"}
        try:
            status, content = task.request("POST", f"/v1/{path}", headers, fast_json.encoded(body))
            answer = fast_json.parsed(content)
        except (NotSent, AnswerLost, ValueError) as error:
            raise Retry(f"directory_state did not answer: {error}") from error
        reason = answer.get("reason") if isinstance(answer, dict) else None
        if status == _UNAUTHORISED:
            self._token = None  # It may have been replaced.
            raise Stop(f"directory_state refuses the token: {reason}")
        if status == _BAD_REQUEST:
            raise Stop(f"directory_state refuses a request: {reason}")
        if status != 200 or not isinstance(answer, dict):
            raise Retry(str(reason or f"directory_state answered {status}"))
        self._answered_by(answer["generation"])
        return answer

    def _answered_by(self, generation: str) -> None:
        """Raises Retry if an answer is from another generation than the confirmed one."""
        if self._confirmed is not None and generation != self._confirmed[0]:  # guard: directory_state.one_generation
            confirmed, self._confirmed = self._confirmed, None
            raise Retry(f"look-ups are answered by {generation}, and {confirmed[0]} was confirmed")


def _rows[I: (int, str)](answer: Any, tables: Sequence[str], ids: Sequence[I]) -> dict[tuple[str, I], documents.Read]:
    """Return (table, id) → (row, version, index) for the documents in an answer to a look-up of these ids that are not
    deleted, except settings (documents.is_answered).
    """
    return {
        (table, id_): (row[1], row[0], f"{table}-{answer['generation']}")
        for table in tables
        for id_, row in zip(ids, answer["tables"][table], strict=True)
        if row is not None and documents.is_answered(table, row[1])
    }


def _by_table[I: int | str](documents: Iterable[tuple[str, I]]) -> dict[str, list[I]]:
    found: dict[str, list[I]] = {}
    for table, id_ in documents:
        found.setdefault(table, []).append(id_)
    return found


def _user(row: Any) -> User:
    user_id, (_, source) = row
    return documents.user(user_id, source)


def _template(row: Any) -> Template:
    template_id, (_, source) = row
    return documents.template(template_id, source)


def _key_of(row: Any) -> dict[str, str]:
    return {"id": str(row[0])}
