"""A batch stores the results of its outcome records concurrently with its flush, and never waits long for them."""

from collections.abc import Sequence
from dataclasses import replace
from threading import Event
from time import monotonic

import pytest

from masscomm.chain.batch import Batch, Item
from masscomm.chain.outcome_emitter import OutcomeEmitter, emit_outcome
from masscomm.chain.result_writer import ResultWriter
from masscomm.domain.outcomes import DEAD_LETTERED, SENT, RecipientOutcome, outcome
from masscomm.domain.records import NotificationOutcome, SendRequested
from masscomm.domain.send_results import SendResult
from masscomm.domain.sends import SendKey
from masscomm.domain.time_limits import RESULTS_PUT_S
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from masscomm.observability import metrics
from masscomm.stores.send_results.dynamodb import DynamoDbSendResults
from masscomm.stores.send_results.in_memory import InMemorySendResults
from masscomm.stores.send_results.port import SendResults
from tests.support.harness.chain import Chain, build, send
from tests.support.harness.relay import Relay
from tests.support.servers.http_server import Answer, Asked, http_server


def _outcome(chain: Chain, user: int) -> NotificationOutcome:
    """Return the outcome record of a send to one user, whose id is the send's."""
    request, sent = build([user], send_id=f"s{user}", record_id=f"r{user}"), [RecipientOutcome(0, user, SENT)]
    now_ms = chain.clock.now_ms()
    return outcome(request, sent, channel="push", step="delivery", start=0, end=1, now_ms=now_ms, directory=None)


class Emitting:
    """A function that emits an outcome record for each user of a send."""

    def __init__(self, results: SendResults) -> None:
        self.chain, self.use_case = Chain(), Relay(work=self._emit, emit=self._emit_dead_lettered)
        self.chain.driver = replace(self.chain.driver, results=ResultWriter(results=results))

    def run(self, *users: int) -> list[int]:
        entries = [self.chain.encoded(send([user]), topics.SEND_MONOLITH, offset=user) for user in users]
        return self.chain.run(self.use_case, *entries)

    def _emit(self, batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        [user] = item.value.to_users
        if user == 0:
            raise DeadLetter("invalid", "user 0")
        emit_outcome(batch, item, _outcome(self.chain, user))

    def _emit_dead_lettered(self, batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        parent, emitter = build([0], send_id="s0"), OutcomeEmitter(step="build", clock=self.chain.clock)
        emitter.emit(batch, item, parent, "push", (0, 1), [RecipientOutcome(0, 0, DEAD_LETTERED)])


def _stored(results: SendResults, chain: Chain, user: int) -> list[SendResult]:
    return list(results.since(SendKey(_outcome(chain, user).club_id, f"s{user}"), None))


def test_each_emitted_outcome_record_is_stored() -> None:
    """More than the items of one request, a dead-lettered record, and the next batch."""
    results = InMemorySendResults()
    function = Emitting(results)
    assert function.run(*range(60)) == []
    assert results.calls == 4  # 25, 25 and 9 with the first flush, and the outcome of the dead letter with the second
    for user in (0, 1, 59):
        [found] = _stored(results, function.chain, user)
        assert found.record_id in {each.record_id for each in function.chain.outcomes()}
    calls = results.calls
    assert function.run(100) == []
    assert results.calls == calls + 1
    assert len(function.chain.outcomes()) == 61


class Held(InMemorySendResults):
    """A store whose puts begin, and end when the test permits it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = Event(), Event()

    def put(self, results: Sequence[SendResult]) -> None:
        self.begun.set()
        self.may_end.wait(30)
        super().put(results)


def test_results_are_stored_during_the_flush() -> None:
    results = Held()
    function = Emitting(results)
    flush = function.chain.producer.flush

    def flushed(timeout_s: float) -> None:
        assert results.begun.wait(30)  # The put has begun before the flush ends.
        flush(timeout_s)
        results.may_end.set()

    function.chain.producer.flush = flushed  # type: ignore[method-assign]
    assert function.run(1) == []
    assert len(_stored(results, function.chain, 1)) == 1


@pytest.mark.guarantee("results.not_stored")
@pytest.mark.parametrize("error", [Retry("throttled"), Stop("no permission"), ValueError("a fault")])
def test_result_that_is_not_stored_holds_nothing(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    results = InMemorySendResults()
    results.failing = error
    function = Emitting(results)
    metrics.taken()
    assert function.run(*range(1, 31)) == []
    assert len(function.chain.outcomes()) == 30
    assert metrics.taken()[0]["ResultsNotStored"] == 30
    assert "not readable until they are counted" in capsys.readouterr().out


@pytest.mark.guarantee("results.not_stored")
def test_batch_does_not_wait_for_a_store_that_hangs() -> None:
    results = Held()
    function = Emitting(results)
    metrics.taken()
    began = monotonic()
    assert function.run(1) == []
    assert monotonic() - began >= RESULTS_PUT_S
    assert not results.may_end.is_set()
    assert metrics.taken()[0]["ResultsNotStored"] == 1
    results.may_end.set()


@pytest.mark.guarantee("results.not_stored")
@pytest.mark.parametrize("fault", ["throttled", "closed", "hanging"])
def test_fault_of_dynamodb_costs_one_request(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With our client, whose other uses repeat a failed request."""
    asked, ended = list[Asked](), Event()

    def answer(request: Asked) -> Answer:
        asked.append(request)
        if fault == "hanging":
            ended.wait(30)
        throttled = b'{"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "busy"}'
        return (400, {}, throttled) if fault == "throttled" else None

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    with http_server(answer) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", url)
        function = Emitting(DynamoDbSendResults())
        metrics.taken()
        assert function.run(1, 2) == []
        assert not ended.is_set()
        ended.set()
    assert len(function.chain.outcomes()) == 2
    assert metrics.taken()[0]["ResultsNotStored"] == 2
    assert [each.headers["X-Amz-Target"].partition(".")[2] for each in asked] == ["BatchWriteItem"]


def test_results_are_switched_off_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEND_RESULTS", "off")
    assert ResultWriter.from_environment() is None
    monkeypatch.setenv("SEND_RESULTS", "on")
    writer = ResultWriter.from_environment()
    assert writer is not None
    assert isinstance(writer.results, DynamoDbSendResults)
    monkeypatch.setenv("SEND_RESULTS", "perhaps")
    with pytest.raises(Stop):
        ResultWriter.from_environment()
