"""The service directory_state on a free port, and the directory's tables in its store."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from directory_state.audience_process import AudienceRequests
from directory_state.audiences import Audiences
from directory_state.generations import GenerationState, store_state
from directory_state.server import Answers, Server
from directory_state.store import FED_AT, Store, Writer, prepare
from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import VersionedDocument
from masscomm.directory.state import StateDirectory
from masscomm.domain.preference_changes import INDEX as PREFERENCE_CHANGES
from masscomm.domain.preference_changes import PreferenceChanges
from masscomm.domain.suppressions import INDEX as SUPPRESSIONS
from masscomm.domain.suppressions import Suppression
from masscomm.domain.tenant_preferences import INDEX as TENANT_PREFERENCES
from masscomm.observability import logs
from tests.support.contracts.directory import Row, Tables
from tests.support.servers.directory_documents import DirectoryDocuments

TOKEN = "t" * 32
GENERATION = "g1"
# A time that is later than every `fed_at` that a test lets pass.
_ALWAYS = 2**53


class StateTables(Tables):
    """Writes documents in the format of cdc_consumer and device_registrar to the store of a running server."""

    def __init__(
        self, folder: Path, ends: Mapping[str, Mapping[int, int]] | None = None, *, is_filled: bool = True
    ) -> None:
        """Make the tables in a new store.

        Args:
            ends: The ends of topics that the store has not applied.
            is_filled: Whether the topics have all of masscomm's own documents.
        """
        prepare(folder, generations=[GENERATION], topic_ids={}, now_ms=0)
        self.store = Store(folder, writes=True)
        self.progress = InMemoryCdcProgress()
        self.progress.lsn = 1
        self.progress.ends = {topic: dict(partitions) for topic, partitions in (ends or {}).items()}
        self.documents = DirectoryDocuments(GENERATION)
        self.is_filled = is_filled
        self.answers = Answers(
            store=self.store,
            generations=[GENERATION],
            progress=lambda _: self.progress,
            filled=lambda: self.is_filled,
            feeders=1,
            clock=SystemClock(),
            logger=logs.logger("directory_state"),
            clock_skew_ms=0,
        )
        with self.store.writing() as writer:
            writer.set_meta(f"{FED_AT}/0", _ALWAYS)
        self.write_state(GENERATION)

    def put(self, *rows: Row) -> None:
        self.write(self.documents.of(*rows))

    def remove(self, *rows: Row) -> None:
        self.write(self.documents.removed(*rows))

    def suppress(self, *several: Suppression) -> None:
        self.write([VersionedDocument(index=SUPPRESSIONS, id=s.id, version=1, source=s.source) for s in several])

    def change(self, changes: PreferenceChanges) -> None:
        document = VersionedDocument(
            index=PREFERENCE_CHANGES, id=str(changes.user_id), version=changes.version, source=changes.document
        )
        self.write([document])

    def put_rules(self, *several: Mapping[str, Any]) -> None:
        self.write(
            [
                VersionedDocument(index=TENANT_PREFERENCES, id=str(each["club_id"]), version=1, source=each)
                for each in several
            ]
        )

    def put_optional(self, table: str, *documents: tuple[str, Mapping[str, Any]]) -> None:
        self.write(self.documents.optional(table, documents))

    def not_ready(self) -> None:
        self._set_state(rebuild_reason="a test")

    def caught_up_to(self, ts_ms: int) -> None:
        self.progress.lsn = self.documents.version = self.documents.version + 1
        self._set_state(lsn=self.documents.version, ts_ms=ts_ms)

    def write_state(self, generation: str) -> None:
        """Let a generation with a complete snapshot answer, if the store has come to the ends of its topics."""
        with self.store.writing() as writer:
            store_state(writer, generation, GenerationState(snapshot_id="s", snapshot_completed_at=1))
        self.answers.advance()

    def _set_state(self, **changes: Any) -> None:
        with self.store.writing() as writer:
            store_state(writer, GENERATION, GenerationState(snapshot_id="s", snapshot_completed_at=1, **changes))

    def write(self, documents: list[VersionedDocument]) -> None:
        with self.store.writing() as writer:
            _put(writer, documents)


def _put(writer: Writer, documents: list[VersionedDocument]) -> None:
    for document in documents:
        assert writer.put(document)


class _InThread:
    """Compares audiences in a thread: a process opens a store once."""

    def __init__(self, store: Store) -> None:
        self._audiences = Audiences(store)
        self._pool = ThreadPoolExecutor(1)

    def submit(self, method: str, *arguments: Any) -> Future[Any]:
        return self._pool.submit(getattr(self._audiences, method), *arguments)

    def close(self) -> None:
        self._pool.shutdown()


@contextmanager
def served(answers: Answers, audiences: AudienceRequests | None = None) -> Iterator[str]:
    """Run the server in a thread; yield its address.

    Args:
        audiences: Compares audiences; None: a thread of the test.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = web.AppRunner(Server(answers, token=TOKEN, audiences=audiences or _InThread(answers.store)).application())

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        return port

    try:
        port = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


@contextmanager
def state_tables(folder: Path) -> Iterator[StateTables]:
    """Yield tables with their directory, over a server that runs meanwhile."""
    tables = StateTables(folder)
    with served(tables.answers) as url:
        tables.directory = StateDirectory(
            [url], token=lambda: TOKEN, wait_s=lambda: 0.2, clock_skew_ms=0, slice_size=250, page_size=3
        )
        yield tables
    tables.store.close()
