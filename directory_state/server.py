"""Answers look-ups from the store over HTTP, in JSON.

    POST /v1/look-up
        {"tables": {table: [id, …]}, "devices_of": [user, …], "templates_of": [[club, category, channel], …]}
        → {"generation", "tables": {table: [row | null, …]}, "devices_of": [[[id, row, states | null], …], …],
        "templates_of": [[[id, row], …], …]}, each list in the order of the request
    POST /v1/users
        {"club_id", "after", "limit"} → {"generation", "rows": [[id, row], …]}
    POST /v1/members
        {"club_id", "after", "audience"} → {"generation", "user_ids": [id, …], "up_to"}
        The users of a club above `after` that belong to an audience (its JSON as a text), and the last one compared.
    POST /v1/count
        {"club_id", "audience", "channels"} → {"generation", "examined", "users", "channels": {channel: number}}
    POST /v1/templates
        {"club_ids" | null, "types", "channels", "after", "limit"} → {"generation", "rows": [[id, row], …]}
    POST /v1/confirm
        {"ts_ms", "wait_s"} → {"generation", "lsn", "ts_ms"}
    GET /v1/health
        → {"generation"}, without a token: 200 once the server has caught up, also while it is behind later. To start it
        again would not help then, and would lose its store.

A row is `[version, source]`. The server answers 503 with a reason while it is behind: until it has read the topics up
to the ends that they had when it started, and while no feeder reads from Kafka. A caller must not take that for an
absence.
"""

import asyncio
import hmac
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from aiohttp import web
from aws_lambda_powertools import Logger

from directory_state.audience_process import AudienceRequests
from directory_state.generations import answering, state_of, store_state
from directory_state.store import FED_AT, FILLED, Reader, Store, UnstorableKey, source_of
from masscomm import fast_json
from masscomm.cdc.captured_tables import TEMPLATES, captured_tables
from masscomm.cdc.completeness import Completeness
from masscomm.cdc.progress import CdcProgress, Offsets, reached
from masscomm.clock import Clock
from masscomm.directory import device_states
from masscomm.directory.changed_documents import index_of
from masscomm.directory.own_documents import INDICES
from masscomm.domain.time_limits import (
    DIRECTORY_STATE_AUDIENCE_S,
    DIRECTORY_STATE_FED_S,
    DIRECTORY_WAIT_S,
    GENERATION_LAG_MS,
)
from masscomm.domain.users import DirectoryPosition
from masscomm.errors import Retry

# The size limit of a request: the ids of a batch.
_REQUEST_BYTES = 4_000_000
# The bytes of an answer that are encrypted at a time. Look-ups wait meanwhile.
_WRITTEN_BYTES = 262_144
_LONG = 2**63


class Refused(Exception):
    """The request is malformed."""


class StoreProgress:
    """The progress of change data capture, with the offsets that the store has applied as the committed ones."""

    def __init__(self, kafka: CdcProgress, store: Store) -> None:
        self._kafka = kafka
        self._store = store
        self._topics: Offsets = {}

    def acknowledged_lsn(self) -> int | None:
        return self._kafka.acknowledged_lsn()

    def end_offsets(self) -> Offsets:
        self._topics = self._kafka.end_offsets()
        return self._topics

    def committed_offsets(self) -> Offsets:
        with self._store.reading() as reader:
            return {
                topic: {partition: reader.offset(topic, partition) or 0 for partition in partitions}
                for topic, partitions in self._topics.items()
            }


@dataclass(kw_only=True)
class Answers:
    """What the server answers with: the store, and the proofs of its completeness.

    Args:
        generations: The captured generations, the oldest first.
        progress: Returns the progress of change data capture in Kafka for a generation.
        filled: Returns whether the topic has all of masscomm's own documents, those that are older than it included.
            It is asked until it is true once for a store. Raises Retry.
        feeders: The number of feeders.
        clock_skew_ms: As in masscomm.cdc.completeness.
    """

    store: Store
    generations: Sequence[str]
    progress: Callable[[str], CdcProgress]
    filled: Callable[[], bool]
    feeders: int
    clock: Clock
    logger: Logger
    clock_skew_ms: int = 250
    # The generations for which the topics have been read up to their ends since the start.
    _caught_up: set[str] = field(default_factory=set, init=False)
    _targets: dict[str, Offsets] = field(default_factory=dict, init=False)
    _confirmed: tuple[str, DirectoryPosition] | None = field(default=None, init=False)
    # One thread at a time proves something.
    _proving: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._progress = cache(lambda generation: StoreProgress(self.progress(generation), self.store))
        self._completeness = Completeness(
            position=self._position,
            progress=self._progress,
            clock=self.clock,
            clock_skew_ms=self.clock_skew_ms,
        )

    def _position(self, generation: str) -> DirectoryPosition | None:
        with self.store.reading() as reader:
            return state_of(reader, generation).position

    def advance(self) -> None:
        """Take the steps towards readiness that are possible now. Raises Retry if Kafka does not answer."""
        with self._proving:
            if not self._is_filled():  # guard: directory_state.filled
                return
            for place, generation in enumerate(self.generations):
                with self.store.reading() as reader:
                    state = state_of(reader, generation)
                if state.rebuild_reason is not None or state.snapshot_completed_at is None:
                    continue
                if generation not in self._caught_up:
                    self._catch_up(generation)
                if place and not state.is_recent and generation in self._caught_up:
                    self._follow(generation)

    def _is_filled(self) -> bool:
        with self.store.reading() as reader:
            if reader.meta(FILLED):
                return True
        if not self.filled():
            return False
        with self.store.writing() as writer:
            writer.set_meta(FILLED, True)
        return True

    def _catch_up(self, generation: str) -> None:
        progress = self._progress(generation)
        if generation not in self._targets:
            # Until Connect has stored a source offset after the snapshot, rows of it may be missing in the topics.
            if progress.acknowledged_lsn() is None:
                return
            self._targets[generation] = progress.end_offsets()
        if reached(progress.committed_offsets(), self._targets[generation]):  # guard: directory_state.caught_up
            self._caught_up.add(generation)
            self.logger.info("the directory's state has caught up", generation=generation)

    def _follow(self, generation: str) -> None:
        """Mark a generation that replaces another one once it is as recent."""
        now_ms = self.clock.now_ms()
        try:
            self._completeness.prove(
                generation, now_ms - GENERATION_LAG_MS, deadline=self.clock.monotonic() + DIRECTORY_WAIT_S
            )
        except Retry:
            return
        with self.store.writing() as writer:
            store_state(writer, generation, replace(state_of(writer, generation), is_recent=True))

    def caught_up(self) -> str | None:
        """Return the newest generation whose topics have been read since the start; None: there is none."""
        return next((each for each in reversed(self.generations) if each in self._caught_up), None)

    def generation(self, reader: Reader) -> str:
        """Return the generation that answers. Raises Retry if the store is not ready, or not fed."""
        generation, reason = answering(reader, self.generations)
        if generation is None:
            raise Retry(f"the directory is not ready: {reason}")
        if generation not in self._caught_up:
            raise Retry("the directory is not ready: its topics have not been read since the start")
        now_ms = self.clock.now_ms()
        for index in range(self.feeders):
            fed_at = reader.meta(f"{FED_AT}/{index}")
            if fed_at is None or now_ms - fed_at > DIRECTORY_STATE_FED_S * 1_000:  # guard: directory_state.fed
                raise Retry(f"the directory is behind: feeder {index} has not read from Kafka since {fed_at}")
        return generation

    def confirm(self, ts_ms: int, wait_s: float) -> tuple[str, DirectoryPosition]:
        """Return the answering generation and a position up to which it is complete, and which covers ts_ms. Raises
        Retry if it is behind.
        """
        deadline = self.clock.monotonic() + wait_s
        with self.store.reading() as reader:
            generation = self.generation(reader)
        if (known := self._known(generation, ts_ms)) is not None:
            return known
        with self._proving:
            # Another caller may have proved it meanwhile.
            known = self._known(generation, ts_ms)
            if known is None:
                known = generation, self._completeness.prove(generation, ts_ms, deadline=deadline)
                self._confirmed = known
            return known

    def _known(self, generation: str, ts_ms: int) -> tuple[str, DirectoryPosition] | None:
        known = self._confirmed
        if known is None or known[0] != generation or not self._completeness.covers(known[1], ts_ms):
            return None
        return known


class Server:
    """The routes.

    Args:
        token: The token that callers present.
        audiences: Compares audiences with users; closed with the application.
    """

    def __init__(self, answers: Answers, *, token: str, audiences: AudienceRequests) -> None:
        self._answers = answers
        self._audiences = audiences
        # The last refresh of the values of audiences.
        self._refresh: Future[None] | None = None
        self._store = answers.store
        self._token = token.encode()

    def application(self) -> web.Application:
        """Return the application. It keeps the values of audiences current."""
        application = web.Application(client_max_size=_REQUEST_BYTES)
        application.add_routes(
            [
                web.post("/v1/look-up", self._answering(self._look_up)),
                web.post("/v1/users", self._answering(self._users)),
                web.post("/v1/users-by-phone", self._answering(self._users_by_phone)),
                web.post("/v1/members", self._answering(self._members)),
                web.post("/v1/count", self._answering(self._count)),
                web.post("/v1/templates", self._answering(self._templates)),
                web.post("/v1/confirm", self._answering(self._confirm)),
                web.get("/v1/health", self._health),
            ]
        )
        application.cleanup_ctx.append(self._background)
        return application

    async def _background(self, _: web.Application) -> Any:
        task = asyncio.create_task(self._maintain())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._audiences.close()

    async def _maintain(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._answers.advance)
            except Retry as error:
                self._answers.logger.warning("the directory's state does not advance", error=str(error))
            self._refresh_audiences()
            await asyncio.sleep(0.2)

    def _refresh_audiences(self) -> None:
        """Begin a refresh of the values of audiences unless one is going on, or look-ups are not answered either."""
        if self._refresh is not None and not self._refresh.done():
            return
        if self._refresh is not None and (error := self._refresh.exception()) is not None:
            self._answers.logger.warning("the values of audiences are not current", error=str(error))
        with self._store.reading() as reader, suppress(Retry):
            self._refresh = self._audiences.submit("refresh", self._answers.generation(reader))

    def _answering(
        self, answer: Callable[[Mapping[str, Any]], Awaitable[bytes]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            presented = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
            if not hmac.compare_digest(presented, self._token):  # guard: directory_state.token
                return _problem(401, "a valid token is required")
            try:
                content = await request.read()
                body = fast_json.parsed(content) if content else {}
                if not isinstance(body, dict):
                    return _problem(400, "the request is not a JSON object")
                return await _written(request, await answer(body))
            except (Refused, UnstorableKey, ValueError, KeyError, TypeError, AttributeError) as error:
                return _problem(400, str(error))
            except Retry as error:
                return _problem(503, str(error))

        return handle

    async def _look_up(self, body: Mapping[str, Any]) -> bytes:
        tables, users, kinds = body.get("tables", {}), body.get("devices_of", ()), body.get("templates_of", ())
        with self._store.reading() as reader:
            generation = self._answers.generation(reader)
            parts = [
                b"%s:[%s]" % (fast_json.encoded(table), b",".join(_or_null(self._rows(reader, generation, table, ids))))
                for table, ids in tables.items()
            ]
            devices = self._devices(reader, generation, [_long(user_id) for user_id in users])
            templates = [
                _pairs(reader.templates_of(generation, club_id, category, channel))
                for club_id, category, channel in kinds
            ]
        return b'{"generation":%s,"tables":{%s},"devices_of":[%s],"templates_of":[%s]}' % (
            fast_json.encoded(generation),
            b",".join(parts),
            b",".join(devices),
            b",".join(templates),
        )

    def _rows(self, reader: Reader, generation: str, table: str, ids: Sequence[Any]) -> list[bytes | None]:
        if (captured := captured_tables().get(table)) is not None:
            read = _text if captured.key else _long
            return reader.values_of_table(table, generation, [read(each) for each in ids])
        if table not in INDICES:
            raise Refused(f"there is no table {table!r:.100}")
        return reader.values_of_table(table, generation, ids)

    def _devices(self, reader: Reader, generation: str, user_ids: Sequence[int]) -> list[bytes]:
        rows = reader.devices_of(generation, user_ids)
        states = reader.values(device_states.INDEX, [str(device_id) for _, device_id, _ in rows])
        found: dict[int, list[bytes]] = {}
        for (user_id, device_id, row), state in zip(rows, states, strict=True):
            found.setdefault(user_id, []).append(b"[%d,%s,%s]" % (device_id, row, state or b"null"))
        return [b"[%s]" % b",".join(found.get(user_id, ())) for user_id in user_ids]

    async def _users(self, body: Mapping[str, Any]) -> bytes:
        club_id, after, limit = _long(body["club_id"]), _long(body["after"]), _limit(body)
        with self._store.reading() as reader:
            generation = self._answers.generation(reader)
            rows = reader.users_of_club(generation, club_id, after=after, limit=limit)
            return b'{"generation":%s,"rows":%s}' % (fast_json.encoded(generation), _pairs(rows))

    async def _users_by_phone(self, body: Mapping[str, Any]) -> bytes:
        ends, limit = [_text(each) for each in body["ends"]], _limit(body)
        with self._store.reading() as reader:
            generation = self._answers.generation(reader)
            found = dict(row for end in ends for row in reader.users_of_phone(generation, end, limit=limit))
            return b'{"generation":%s,"rows":%s}' % (fast_json.encoded(generation), _pairs(sorted(found.items())))

    async def _members(self, body: Mapping[str, Any]) -> bytes:
        return await self._compared("members", _long(body["club_id"]), _text(body["audience"]), _long(body["after"]))

    async def _count(self, body: Mapping[str, Any]) -> bytes:
        channels = [_text(each) for each in body["channels"]]
        return await self._compared("count", _long(body["club_id"]), _text(body["audience"]), channels)

    async def _compared(self, method: str, *arguments: Any) -> bytes:
        """Return the answer of a method of Audiences. Raises Retry if it does not answer in time."""
        with self._store.reading() as reader:
            generation = self._answers.generation(reader)
        until = time.monotonic() + DIRECTORY_STATE_AUDIENCE_S
        future = self._audiences.submit(method, generation, *arguments, until)
        try:
            async with asyncio.timeout(DIRECTORY_STATE_AUDIENCE_S):
                answer: bytes = await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise Retry("the audience was not compared with all users in time") from error
        except BrokenExecutor as error:
            raise Retry("the process that compares audiences has ended") from error
        return answer

    async def _templates(self, body: Mapping[str, Any]) -> bytes:
        clubs, types, channels = body.get("club_ids"), body.get("types", ()), body.get("channels", ())
        limit = _limit(body)
        found: list[tuple[int, bytes]] = []
        with self._store.reading() as reader:
            generation = self._answers.generation(reader)
            for template_id, row in reader.rows(index_of(TEMPLATES, generation), after=_long(body["after"])):
                source = source_of(row)
                club_id = source.get("club_id")
                if (
                    not source.get("deleted")
                    and (clubs is None or club_id is None or club_id in clubs)  # guard: tenancy.listed_templates
                    and (not types or source["type"] in types)
                    and (not channels or source["channel"] in channels)
                ):
                    found.append((template_id, row))
                if len(found) == limit:
                    break
        return b'{"generation":%s,"rows":%s}' % (fast_json.encoded(generation), _pairs(found))

    async def _confirm(self, body: Mapping[str, Any]) -> bytes:
        ts_ms, wait_s = _long(body["ts_ms"]), float(body["wait_s"])
        if not 0 <= wait_s <= DIRECTORY_WAIT_S:
            raise Refused(f"wait_s is at most {DIRECTORY_WAIT_S}")
        generation, position = await asyncio.to_thread(self._answers.confirm, ts_ms, wait_s)
        return fast_json.encoded({"generation": generation, "lsn": position.lsn, "ts_ms": position.ts_ms})

    async def _health(self, _: web.Request) -> web.Response:
        generation = self._answers.caught_up()
        if generation is None:
            return _problem(503, "the topics have not been read since the start")
        return web.Response(body=fast_json.encoded({"generation": generation}), content_type="application/json")


def _or_null(rows: Sequence[bytes | None]) -> list[bytes]:
    return [b"null" if row is None else row for row in rows]


def _pairs(rows: Sequence[tuple[int, bytes]]) -> bytes:
    return b"[%s]" % b",".join(b"[%d,%s]" % row for row in rows)


def _long(value: Any) -> int:
    if type(value) is not int or not -_LONG <= value < _LONG:
        raise Refused(f"a whole number is required, not {value!r:.100}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Refused(f"a text is required, not {value!r:.100}")
    return value


def _limit(body: Mapping[str, Any]) -> int:
    limit = _long(body["limit"])
    if not 1 <= limit <= 10_000:
        raise Refused("limit is from 1 to 10000")
    return limit


async def _written(request: web.Request, body: bytes) -> web.StreamResponse:
    """Return the response with a body of JSON. A long one is written in parts, between which others are answered."""
    if len(body) <= _WRITTEN_BYTES:
        return web.Response(body=body, content_type="application/json")
    response = web.StreamResponse()
    response.content_type, response.content_length = "application/json", len(body)
    await response.prepare(request)
    for start in range(0, len(body), _WRITTEN_BYTES):
        await response.write(body[start : start + _WRITTEN_BYTES])
    return response


def _problem(status: int, reason: str) -> web.Response:
    return web.Response(status=status, body=fast_json.encoded({"reason": reason}), content_type="application/json")
