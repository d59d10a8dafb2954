"""The directory over directory_state fulfils the contract, over HTTP and LMDB."""

import ssl
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest

from directory_state.processes import tls_context
from directory_state.store import FED_AT
from masscomm.aws.http_answer import NotSent
from masscomm.directory.state import StateDirectory
from masscomm.domain.audiences import Audience, read_audience
from masscomm.domain.time_limits import DIRECTORY_STATE_FED_S
from masscomm.errors import Retry, Stop
from tests.support.contracts.directory import DEVICE, EVERYBODY, USER, DirectoryContract
from tests.support.inputs.optional_tables import ENTRIES, mapped
from tests.support.servers.directory_state import TOKEN, StateTables, served, state_tables
from tests.support.until import until


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[StateTables]:
    with state_tables(tmp_path / "state") as found:
        yield found


@pytest.fixture
def mapped_tables(tmp_path: Path) -> Iterator[StateTables]:
    with mapped(*ENTRIES), state_tables(tmp_path / "state") as found:
        yield found


class TestStateDirectory(DirectoryContract):
    @pytest.mark.kills(guard="directory_state.fed")
    def test_look_ups_are_refused_while_nothing_is_fed(self, tables: StateTables) -> None:
        tables.put(USER)
        clock = tables.answers.clock
        with tables.store.writing() as writer:
            writer.set_meta(f"{FED_AT}/0", clock.now_ms() - round(DIRECTORY_STATE_FED_S * 1_000) - 1)
        with pytest.raises(Retry, match="has not read from Kafka"):
            tables.directory.users([1])

    def test_another_task_answers_for_one_that_does_not(self, tables: StateTables) -> None:
        tables.put(USER)
        with served(tables.answers) as url:
            directory = StateDirectory(["http://127.0.0.1:9", url], token=lambda: TOKEN)
            assert directory.users([1]) == {1: USER}
            assert directory.users([1]) == {1: USER}

    @pytest.mark.kills(guard="directory_state.confirmed_by_each_task")
    def test_task_that_is_behind_does_not_answer_for_another(self, tables: StateTables, tmp_path: Path) -> None:
        tables.put(USER)
        tables.caught_up_to(1_000)
        with state_tables(tmp_path / "behind") as behind, served(behind.answers) as second:
            with served(tables.answers) as first:
                directory = StateDirectory([first, second], token=lambda: TOKEN, wait_s=lambda: 0, clock_skew_ms=0)
                directory.confirm(1_000)
                assert directory.users([1]) == {1: USER}
            with pytest.raises(Retry):
                directory.users([1])
            behind.put(USER)
            behind.caught_up_to(1_000)
            assert directory.users([1]) == {1: USER}

    @pytest.mark.kills(guard="directory_state.one_generation")
    def test_answer_of_another_generation_is_a_retry(self, tables: StateTables, tmp_path: Path) -> None:
        tables.put(USER)
        tables.caught_up_to(1_000)
        tables.directory.confirm(1_000)
        tables.answers.generations = ("other",)
        tables.write_state("other")
        with pytest.raises(Retry, match="g1 was confirmed"):
            tables.directory.users([1])
        assert tables.directory.position() is None

    @pytest.mark.kills(guard="directory_state.caught_up")
    def test_look_ups_wait_until_the_topics_have_been_read(self, tmp_path: Path) -> None:
        tables = StateTables(tmp_path / "behind", ends={"cdc.g1.users": {0: 1}})
        with served(tables.answers) as url:
            directory = StateDirectory([url], token=lambda: TOKEN)
            with pytest.raises(Retry, match="have not been read"):
                directory.users([1])
            with tables.store.writing() as writer:
                writer.set_offset("cdc.g1.users", 0, 1)
            until("the topics have been read", lambda: _answers(directory))
        tables.store.close()

    @pytest.mark.kills(guard="directory_state.filled")
    def test_look_ups_wait_for_documents_older_than_their_topic(self, tmp_path: Path) -> None:
        tables = StateTables(tmp_path / "unfilled", is_filled=False)
        with served(tables.answers) as url:
            directory = StateDirectory([url], token=lambda: TOKEN)
            with pytest.raises(Retry, match="not ready"):
                directory.users([1])
            tables.is_filled = True
            until("the topics have the documents", lambda: _answers(directory))
            tables.is_filled = False
            assert _answers(directory)
        tables.store.close()

    def test_changes_that_are_not_applied_are_a_retry(
        self, tables: StateTables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("masscomm.directory.state.DIRECTORY_WAIT_S", 0.0)
        with pytest.raises(Retry, match="do not see"):
            tables.directory.await_changes(1, 5)

    def test_no_task_is_a_retry(self) -> None:
        gone = StateDirectory(["http://127.0.0.1:9"], token=lambda: TOKEN)
        with pytest.raises(Retry, match="did not answer"):
            gone.users([1])

    @pytest.mark.kills(guard="directory_state.token")
    def test_wrong_token_stops(self, tables: StateTables) -> None:
        with served(tables.answers) as url, pytest.raises(Stop, match="refuses the token"):
            StateDirectory([url], token=lambda: "w" * 32).users([1])

    def test_an_inactive_device_is_not_returned(self, tables: StateTables) -> None:
        tables.put(DEVICE)
        (document,) = tables.documents.of(DEVICE._replace(endpoint_arn=None))
        tables.write([replace(document, source={**document.source, "active": False})])
        assert tables.directory.devices([1]) == {1: []}

    def test_a_device_moves_to_its_new_user(self, tables: StateTables) -> None:
        tables.put(DEVICE)
        tables.put(moved := DEVICE._replace(user_id=2))
        assert tables.directory.devices([1, 2]) == {1: [], 2: [moved]}

    def test_pages_of_members_need_one_answer(self, tables: StateTables) -> None:
        """The task may end after the first page."""
        tables.put(*(USER._replace(user_id=number) for number in range(1, 6)))
        with served(tables.answers) as url:
            pages = StateDirectory([url], token=lambda: TOKEN, page_size=2).members_of_club(7, EVERYBODY)
            assert next(pages) == ((1, 2), 2)
        assert list(pages) == [((3, 4), 4), ((5,), 5)]

    @pytest.mark.kills(guard="directory_state.valid_audience")
    def test_invalid_audience_stops(self, tables: StateTables) -> None:
        """A service with another schemas/source.yaml does not know an attribute."""
        tables.put(USER)
        unknown, _ = read_audience({"where": {"field": "attributes.plan", "is": "gold"}}, attributes=["plan"])
        with pytest.raises(Stop, match="refuses a request: the audience is invalid"):
            list(tables.directory.count_members(7, unknown, []))
        with pytest.raises(Stop, match="refuses a request: the audience is invalid"):
            list(tables.directory.members_of_club(7, Audience()))

    def test_look_up_is_answered_while_an_audience_is_compared(self, tables: StateTables) -> None:
        tables.put(USER)
        busy = Busy()
        with served(tables.answers, busy) as url, ThreadPoolExecutor(1) as pool:
            directory = StateDirectory([url], token=lambda: TOKEN)
            counting = pool.submit(lambda: list(directory.count_members(7, EVERYBODY, [])))
            assert busy.counts.get(timeout=30)
            assert directory.users([1]) == {1: USER}
            assert not counting.done()
            busy.answer.set_result(b'{"generation":"g1","examined":1,"users":1,"channels":{}}')
            assert counting.result(30) == [(1, 1, {})]

    def test_end_of_the_process_of_audiences_is_a_retry(self, tables: StateTables) -> None:
        busy = Busy()
        busy.answer.set_exception(BrokenExecutor("killed"))
        with served(tables.answers, busy) as url, pytest.raises(Retry, match="has ended"):
            list(StateDirectory([url], token=lambda: TOKEN).members_of_club(7, EVERYBODY))

    def test_audience_that_takes_too_long_is_a_retry(
        self, tables: StateTables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Never a part of its users."""
        tables.put(USER)
        monkeypatch.setattr("directory_state.server.DIRECTORY_STATE_AUDIENCE_S", 0.0)
        with pytest.raises(Retry, match="in time"):
            list(tables.directory.count_members(7, EVERYBODY, []))


class Busy:
    """A process that is busy with an audience.

    Attributes:
        counts: Whether a request was a count or another one, except refreshes.
        answer: The answer to each of these requests.
    """

    def __init__(self) -> None:
        self.counts: Queue[bool] = Queue()
        self.answer: Future[bytes] = Future()

    def submit(self, method: str, *_: object) -> Future[Any]:
        if method == "refresh":
            return Future()
        self.counts.put(method == "count")
        return self.answer

    def close(self) -> None:
        pass


def _answers(directory: StateDirectory) -> bool:
    try:
        directory.users([1])
    except Retry:
        return False
    return True


def test_task_is_healthy_once_it_has_caught_up(tmp_path: Path) -> None:
    """A load balancer asks without a token, and a task that is behind later is not replaced."""
    tables = StateTables(tmp_path / "behind", ends={"cdc.g1.users": {0: 1}})
    with served(tables.answers) as url:
        assert httpx.get(f"{url}/v1/health").status_code == 503
        with tables.store.writing() as writer:
            writer.set_offset("cdc.g1.users", 0, 1)
        until("the topics have been read", lambda: httpx.get(f"{url}/v1/health").status_code == 200)
        with tables.store.writing() as writer:
            writer.set_meta(f"{FED_AT}/0", 0)
        assert httpx.get(f"{url}/v1/health").json() == {"generation": "g1"}
        with pytest.raises(Retry):
            StateDirectory([url], token=lambda: TOKEN).users([1])
    tables.store.close()


def test_own_certificate_encrypts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIRECTORY_STATE_CERTIFICATE", "self-signed")
    server = tls_context("0.0.0.0")  # noqa: S104 - nothing listens
    assert server is not None
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    hello, reply = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking, answering = client.wrap_bio(reply, hello), server.wrap_bio(hello, reply, server_side=True)
    for side in (asking, answering, asking, answering):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert asking.version() == answering.version() == "TLSv1.3"
    assert asking.getpeercert(binary_form=True)


def test_environments_share_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise all look-ups would go to the first address."""
    monkeypatch.setenv("DIRECTORY_STATE_URL", "http://first, http://second")
    monkeypatch.setenv("DIRECTORY_STATE_TOKEN", TOKEN)
    asked: list[str] = []

    class Task:
        def __init__(self, url: str, **_: object) -> None:
            self.url = url

        def request(self, *_: object) -> None:
            asked.append(self.url)
            raise NotSent("a test")

    monkeypatch.setattr("masscomm.directory.state.PooledHttp", Task)
    for _ in range(50):
        with pytest.raises(Retry):
            StateDirectory.from_environment().users([1])
    assert {*asked[::2]} == {*asked[1::2]} == {"http://first", "http://second"}


def test_token_is_read_again_after_a_refusal(tables: StateTables) -> None:
    tables.put(USER)
    tokens = iter(["w" * 32, TOKEN])
    with served(tables.answers) as url:
        directory = StateDirectory([url], token=lambda: next(tokens))
        with pytest.raises(Stop):
            directory.users([1])
        assert directory.users([1]) == directory.users([1]) == {1: USER}


@pytest.mark.kills(guard="directory_state.plain_text")
def test_plain_text_is_for_loopback_only() -> None:
    assert tls_context("127.0.0.1") is None
    with pytest.raises(Stop, match="loopback only"):
        tls_context("10.0.0.1")
