"""Redelivery emits finished slices and continues the others; two invocations never publish the same slice."""

from collections import Counter
from collections.abc import Callable

import pytest

from functions.catalogue import read_catalogue
from functions.delivery.deliver import Deliver
from functions.delivery.publish import UNRECORDED
from masscomm.domain.email_settings import EmailOrigin
from masscomm.domain.lanes import Lane
from masscomm.domain.provider_errors import Transient
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.time_limits import LEASE_S
from masscomm.domain.users import UserSettings
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from masscomm.stores.delivery_ledger.in_memory import InMemoryDeliveryLedger
from tests.support.fakes.crashes import KilledError
from tests.support.harness.chain import NOW, delivery, results_of
from tests.support.harness.delivery import Delivery, by_email, elsewhere

SENT = ("sent", None)
USERS = range(1000, 1250)


class Fleet(Delivery):
    """Function environments that share one ledger table; each of the users 1000 to 1249 has a device."""

    def __init__(self, channel: str = "push") -> None:
        super().__init__()
        self.channel = channel
        for user_id in USERS:
            self.put_device(user_id, user_id)

    def started(self, owner: str, *, workers: int = 4) -> Deliver:
        ledger = InMemoryDeliveryLedger(clock=self.clock, owner=owner, table=self.table)
        return self.environment(ledger, workers=workers)

    def record(self, users: range = USERS, **values: object) -> DeliveryRequested:
        return delivery(users, **values) if self.channel == "push" else by_email(users, **values)

    def at_call(self, number: int, act: Callable[[], None]) -> None:
        """Run `act` inside the provider call with this number and inside every later call."""
        counted = Counter[str]()

        def fail(_target: str) -> None:
            counted["calls"] += 1
            if counted["calls"] >= number:
                act()

        self.push.fail = self.email.fail = fail

    def heal(self) -> None:
        """Make the provider accept every message again."""
        self.push.fail = self.email.fail = lambda _target: None

    def kill(self, call: int, record: DeliveryRequested | None = None) -> None:
        """Deliver a record until the environment "a" is killed in a call of the provider."""
        self.at_call(call, _killed)
        with pytest.raises(KilledError):
            self.deliver(record or self.record(), environment=self.started("a"))
        self.heal()

    def taken(self) -> Counter[str]:
        """The number of accepted messages by target."""
        pushes = Counter(push.endpoint_arn.replace("arn-", "") for push in self.push.published)
        mails = Counter(mail.recipient.split("@")[0].replace("user", "") for mail in self.email.sent)
        return pushes + mails

    def twice(self) -> list[int]:
        """The users who got the message more than once."""
        return sorted(int(user) for user, times in self.taken().items() if times > 1)


def _killed() -> None:
    raise KilledError


@pytest.mark.guarantee("push.redelivered_record_resumes", "email.at_least_once")
@pytest.mark.parametrize("channel", ["push", "email"])
@pytest.mark.parametrize("call", [1, 50, 100, 101, 180, 250])
def test_kill_doubles_at_most_one_slice_and_loses_no_recipient(channel: str, call: int) -> None:
    fleet = Fleet(channel)
    fleet.kill(call)
    before = fleet.taken()
    assert fleet.deliver(fleet.record(), environment=fleet.started("b")) == []
    slice_ = (call - 1) // 100
    assert fleet.twice() == sorted(user for user in USERS[slice_ * 100 : slice_ * 100 + 100] if before[str(user)])
    assert set(fleet.taken()) == {str(user) for user in USERS}
    (outcome,) = fleet.outcomes()
    assert results_of([outcome]) == {(user, channel): SENT for user in USERS}
    assert [len(ids) for ids in outcome.provider_message_ids] == [1] * len(USERS)


def test_record_leased_elsewhere_waits_for_the_lease_to_end() -> None:
    fleet = Fleet()
    fleet.kill(1)
    assert fleet.deliver(fleet.record(), environment=fleet.started("b")) == []
    assert LEASE_S <= fleet.clock.monotonic() - NOW / 1000 <= LEASE_S + 2


def test_too_little_time_for_the_lease_redelivers_unpublished() -> None:
    fleet = Fleet()
    fleet.kill(1)
    assert fleet.deliver(fleet.record(), environment=fleet.started("b"), seconds=15) == [0]
    assert fleet.push.published == []


def test_record_waiting_for_a_lease_delays_no_other() -> None:
    fleet = Fleet()
    fleet.kill(1, fleet.record(range(1000, 1001)))
    at: dict[str, float] = {}

    def note(arn: str) -> None:
        at[arn] = fleet.clock.monotonic() - NOW / 1000

    fleet.push.fail = note
    records = [fleet.record(range(1000, 1001)), fleet.record(range(1001, 1002), record_id="other")]
    assert fleet.deliver(*records, environment=fleet.started("b")) == []
    assert at["arn-1001"] == 0
    assert at["arn-1000"] >= LEASE_S


@pytest.mark.guarantee("push.leased_record_is_published_once")
@pytest.mark.parametrize("channel", ["push", "email"])
def test_the_same_batch_twice_at_the_same_time_is_published_once(channel: str) -> None:
    fleet = Fleet(channel)
    meanwhile: list[list[int]] = []
    second = fleet.started("b")

    def both() -> None:
        if not meanwhile:
            meanwhile.append([])  # set first, because the nested delivery calls both() again
            meanwhile.append(elsewhere(lambda: fleet.deliver(fleet.record(), environment=second, seconds=12)))

    fleet.at_call(120, both)
    assert fleet.deliver(fleet.record(), environment=fleet.started("a")) == []
    assert meanwhile == [[], [0]]
    assert fleet.twice() == []
    assert len(fleet.outcomes()) == 1


@pytest.mark.guarantee("push.lost_lease_stops_calls")
def test_environment_frozen_beyond_its_lease_begins_no_call() -> None:
    fleet = Fleet()
    slept: list[int] = []

    def sleep() -> None:
        if not slept:
            slept.append(1)
            assert elsewhere(lambda: fleet.deliver(fleet.record(), environment=fleet.started("b"))) == []

    fleet.at_call(150, sleep)
    assert fleet.deliver(fleet.record(), environment=fleet.started("a", workers=1)) == [0]
    assert fleet.twice() == list(USERS[100:150])  # the first environment makes no further call after its pause
    assert len(fleet.taken()) == len(USERS)
    fleet.heal()
    assert fleet.deliver(fleet.record(), environment=fleet.started("a")) == []
    first, *others = fleet.outcomes()
    assert results_of([first]) == {(user, "push"): SENT for user in USERS}
    for other in others:
        assert (other.record_id, other.provider_message_ids) == (first.record_id, first.provider_message_ids)


def test_environment_that_lost_its_lease_stores_no_delay() -> None:
    fleet = Fleet()
    record = fleet.record(range(1000, 1001))
    slept: list[int] = []

    def asleep(_arn: str) -> Transient | None:
        if slept:
            return None
        slept.append(1)
        fleet.clock.advance(LEASE_S + 2)
        assert elsewhere(lambda: fleet.deliver(record, environment=fleet.started("b"))) == []
        return Transient("reset")

    fleet.push.fail = asleep
    assert fleet.deliver(record, environment=fleet.started("a")) == [0]
    assert not fleet.delay_store.items
    assert fleet.twice() == []


@pytest.mark.guarantee("outcome.repeated_outcome_keeps_its_id")
def test_finished_record_emits_its_outcomes_again_at_once() -> None:
    fleet = Fleet()
    fleet.producer.fail = lambda _topic, _value: Retry("no leader")
    assert fleet.deliver(fleet.record(), environment=fleet.started("a")) == [0]
    fleet.producer.fail = lambda _topic, _value: None
    assert fleet.deliver(fleet.record(), environment=fleet.started("b")) == []
    assert fleet.clock.now_ms() == NOW
    assert fleet.twice() == []
    assert len(fleet.outcomes()) == 1


def test_unfinished_record_is_released_to_others_at_once() -> None:
    fleet = Fleet()
    fleet.at_call(120, lambda: fleet.clock.advance(0.2))
    assert fleet.deliver(fleet.record(), environment=fleet.started("a"), seconds=20) == [0]
    assert 0 < len(fleet.taken()) < len(USERS)
    fleet.heal()
    before = fleet.clock.now_ms()
    assert fleet.deliver(fleet.record(), environment=fleet.started("b")) == []
    assert fleet.clock.now_ms() == before
    assert fleet.twice() == []


@pytest.mark.guarantee("dynamodb_down.nothing_is_published")
@pytest.mark.parametrize("method", ["acquire", "results"])
def test_nothing_is_published_while_the_ledger_is_down(method: str) -> None:
    fleet = Fleet()
    fleet.deliver(fleet.record(range(1000, 1001)))  # Reading results can fail only if the ledger has some.
    published = len(fleet.push.published)
    fleet.ledger.fail = lambda called: Retry("DynamoDB is down") if called == method else None
    records = fleet.record(range(1000, 1002)), fleet.record(range(1002, 1004), record_id="other")
    assert fleet.deliver(*records) == ([0, 1] if method == "acquire" else [0])
    assert len(fleet.push.published) - published == (0 if method == "acquire" else 2)
    fleet.ledger.fail = lambda _called: None
    assert fleet.deliver(*records) == []
    assert fleet.twice() == []


@pytest.mark.guarantee("dynamodb_down.one_slice_is_doubled")
def test_only_the_unrecorded_slice_is_doubled() -> None:
    fleet = Fleet()
    recorded = Counter[str]()

    def fail(method: str) -> Exception | None:
        recorded[method] += 1
        return Retry("throttled") if method == "record" and recorded[method] > 1 else None

    fleet.ledger.fail = fail
    assert fleet.deliver(fleet.record()) == [0]
    assert len(fleet.taken()) == 200
    assert fleet.outcomes() == []
    fleet.ledger.fail = lambda _method: None
    assert fleet.deliver(fleet.record()) == []
    assert fleet.twice() == list(USERS[100:200])
    assert results_of(fleet.outcomes()) == {(user, "push"): SENT for user in USERS}


@pytest.mark.guarantee("outcome.recorded_before_emitted")
def test_unrecorded_result_is_not_emitted() -> None:
    fleet = Fleet()
    fleet.ledger.fail = lambda method: Retry("throttled") if method == "record" else None
    assert fleet.deliver(fleet.record(range(1000, 1010))) == [0]
    assert fleet.outcomes() == []


def test_a_write_that_fails_for_a_moment_doubles_nothing() -> None:
    fleet = Fleet()
    failures = [Retry("throttled")] * 3
    fleet.ledger.fail = lambda method: failures.pop() if method == "record" and failures else None
    assert fleet.deliver(fleet.record()) == []
    assert fleet.twice() == []


def test_recorded_decisions_are_kept_others_use_new_settings() -> None:
    fleet = Fleet()
    fleet.kill(101)
    for user_id in (USERS[10], USERS[220]):
        fleet.directory.put(UserSettings(user_id=user_id, channels={"push": False}))
    assert fleet.deliver(fleet.record(), environment=fleet.started("b")) == []
    outcomes = results_of(fleet.outcomes())
    assert outcomes[USERS[10], "push"] == SENT
    assert outcomes[USERS[220], "push"] == ("suppressed", "opted_out")
    assert str(USERS[220]) not in fleet.taken()


def test_opt_out_while_waiting_for_the_lease_is_honoured() -> None:
    fleet = Fleet()
    fleet.kill(1)
    ledger = InMemoryDeliveryLedger(clock=fleet.clock, owner="b", table=fleet.table)

    def opt_out(_method: str) -> None:
        if ledger.calls["acquire"] > 1:
            fleet.directory.put(UserSettings(user_id=USERS[5], channels={"push": False}))

    ledger.fail = opt_out
    assert fleet.deliver(fleet.record(), environment=fleet.environment(ledger)) == []
    assert results_of(fleet.outcomes())[USERS[5], "push"] == ("suppressed", "opted_out")


def test_rewritten_record_keeps_recorded_recipients() -> None:
    fleet = Fleet()
    fleet.deliver(fleet.record(range(1000, 1003)))
    fleet.forget()
    other = fleet.record(range(1001, 1004), positions=[1, 2, 3])
    assert fleet.deliver(other) == []
    assert results_of(fleet.outcomes()) == {(user, "push"): SENT for user in range(1000, 1004)}
    assert fleet.twice() == []


def test_a_record_twice_in_one_batch_is_published_once() -> None:
    fleet = Fleet()
    assert fleet.deliver(fleet.record(), fleet.record()) == []
    assert fleet.twice() == []
    first, second = fleet.outcomes()
    assert first == second


def test_slow_provider_keeps_the_lease_by_renewal() -> None:
    fleet = Fleet()
    fleet.at_call(1, lambda: fleet.clock.advance(0.1))
    assert fleet.deliver(fleet.record(), seconds=60) == []
    assert fleet.clock.monotonic() - NOW / 1000 > LEASE_S
    assert fleet.ledger.calls["renew"] <= 15


@pytest.mark.guarantee("push.calls_end_within_lease")
def test_no_call_begins_that_could_outlive_the_lease() -> None:
    fleet = Fleet()
    began: list[float] = []

    def slow() -> None:
        began.append(fleet.clock.monotonic() - NOW / 1000)
        fleet.clock.advance(0.5)

    fleet.at_call(1, slow)
    fleet.ledger.fail = lambda method: Retry("down") if method == "renew" else None
    assert fleet.deliver(fleet.record()) == [0]
    assert max(began) <= LEASE_S - fleet.use_case.gateway.call_s
    assert len(began) < 100


def test_dead_letter_outcome_has_results_of_other_environments() -> None:
    fleet = Fleet()
    fleet.kill(101)
    refusals: list[Exception | None] = [DeadLetter("too_large", "the outcome is too large")]
    fleet.producer.fail = lambda _topic, _value: refusals.pop() if refusals else None
    assert fleet.deliver(fleet.record(), environment=fleet.started("b")) == []
    assert results_of(fleet.outcomes()) == {(user, "push"): SENT for user in USERS}


@pytest.mark.guarantee("delivery_ledger.one_write_a_slice")
@pytest.mark.parametrize(("recipients", "groups"), [(1, 1), (25, 1), (26, 2), (100, 4), (500, 20)])
def test_the_ledger_is_written_once_a_group_and_once_a_batch(recipients: int, groups: int) -> None:
    """Four records share groups of 100 recipients, so the ledger is written once per group and not once per record."""
    fleet = Fleet()
    for user_id in range(2000, 2000 + recipients):
        fleet.put_device(user_id, user_id)
    records = [fleet.record(range(2000, 2000 + recipients), record_id=str(place)) for place in range(4)]
    assert fleet.deliver(*records) == []
    written = fleet.ledger.calls.pop("record", 0) + fleet.ledger.calls.pop("record_all", 0)
    assert written == groups
    assert fleet.ledger.calls == {"acquire_all": 1}


@pytest.mark.guarantee("delivery_ledger.small_sends_share_round_trips")
def test_small_sends_take_two_ledger_round_trips() -> None:
    fleet = Fleet()
    records = [fleet.record(range(user, user + 1), record_id=str(user)) for user in USERS[:100]]
    assert fleet.deliver(*records) == []
    assert fleet.ledger.calls == {"acquire_all": 1, "record_all": 1}
    assert len(fleet.outcomes()) == 100


def test_conflict_of_one_record_delays_no_other_of_its_group() -> None:
    fleet = Fleet()
    records = [fleet.record(range(user, user + 1), record_id=str(user)) for user in USERS[:5]]
    slept: list[int] = []

    def sleep() -> None:
        if not slept:
            slept.append(1)
            fleet.clock.advance(LEASE_S + 2)
            assert elsewhere(lambda: fleet.deliver(records[2], environment=fleet.started("b"))) == []
            fleet.clock.advance(-LEASE_S - 2)

    fleet.at_call(1, sleep)
    assert fleet.deliver(*records, environment=fleet.started("a", workers=1)) == [2]
    assert fleet.twice() == [USERS[2]]
    assert set(fleet.taken()) == {str(user) for user in USERS[:5]}


@pytest.mark.parametrize("call", [1, 3, 8, 9, 30])
def test_kill_doubles_at_most_the_limit_over_all_records(call: int) -> None:
    """A killed environment leaves at most `DELIVERY_UNRECORDED` recipients unrecorded, over all of its records."""
    fleet = Fleet()
    sizes = [1, 1, 3, 3, 12, 1, 30]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    records = [
        fleet.record(USERS[start : start + size], record_id=str(start))
        for start, size in zip(starts, sizes, strict=True)
    ]
    fleet.at_call(call, _killed)
    ledger = InMemoryDeliveryLedger(clock=fleet.clock, owner="a", table=fleet.table)
    with pytest.raises(KilledError):
        fleet.deliver(*records, environment=fleet.environment(ledger, unrecorded=8))
    fleet.heal()
    fleet.clock.advance(LEASE_S + 2)
    assert fleet.deliver(*records, environment=fleet.started("b")) == []
    assert len(fleet.twice()) <= 8
    assert set(fleet.taken()) == {str(user) for user in USERS[: sum(sizes)]}


def test_full_batch_of_small_sends_takes_three_ledger_requests() -> None:
    """The batch has two groups, and the first one is recorded before the second one is published to."""
    fleet = Fleet()
    ledger = InMemoryDeliveryLedger(clock=fleet.clock, owner="a", table=fleet.table)
    deployed = next(entry for entry in read_catalogue(generation="any") if entry.name == "delivery")
    assert deployed.event_source is not None
    size = deployed.event_source.batch_sizes[topics.in_lane(topics.DELIVERY, Lane.SMALL)]
    records = [fleet.record(range(user, user + 1), record_id=str(user)) for user in USERS[:size]]
    recorded_before: list[int] = []
    fleet.at_call(UNRECORDED + 1, lambda: recorded_before.append(len(fleet.table.slices)))
    assert fleet.deliver(*records, environment=fleet.environment(ledger, unrecorded=UNRECORDED)) == []
    assert (size, recorded_before[0]) == (2 * UNRECORDED, UNRECORDED)
    assert ledger.calls == {"acquire_all": 1, "record_all": 2}


@pytest.mark.kills(guard="provider.lost_answer_is_recorded")
@pytest.mark.guarantee("push.lost_answers_are_repeated_once")
def test_lost_answers_give_two_copies_and_a_delay() -> None:
    """An answer of the provider that is lost each time is repeated once, even if the record is redelivered."""
    chain = Delivery()
    copies: Counter[str] = Counter()

    async def lose(*, recipient: str, message: bytes, origin: EmailOrigin) -> str:
        copies[recipient] += 1
        raise Transient("cut", answer_lost=True)

    accept, chain.email.send = chain.email.send, lose  # type: ignore[method-assign]
    few = chain.environment(chain.ledger, unrecorded=2)
    chain.delay_store.failing = Retry("DynamoDB is down")
    for _ in range(2):
        assert chain.deliver(by_email([1, 2, 3]), environment=few) == [0]
    chain.delay_store.failing = None
    assert chain.deliver(by_email([1, 2, 3]), environment=few) == []
    assert copies == {f"user{user_id}@example.com": 2 for user_id in (1, 2, 3)}
    chain.email.send = accept  # type: ignore[method-assign]
    for user_id in (1, 2, 3):
        chain.put_user(user_id)
    chain.forget()
    assert chain.release() == []
    assert sorted(sent.recipient for sent in chain.email.sent) == [
        f"user{user_id}@example.com" for user_id in (1, 2, 3)
    ]
    assert set(results_of(chain.outcomes()).values()) == {("sent", None)}


def test_answers_lost_for_three_days_give_few_copies() -> None:
    chain = Delivery()
    calls = 0

    async def lose(**_message: object) -> str:
        nonlocal calls
        calls += 1
        raise Transient("cut", answer_lost=True)

    chain.email.send = lose  # type: ignore[method-assign]
    assert chain.deliver(by_email([1])) == []
    while chain.delay_store.items:
        assert chain.release(environment=chain.environment(chain.ledger)) == []
    assert results_of(chain.outcomes()[-1:]) == {(1, "email"): ("expired", "expired")}
    assert 10 < calls < 30
