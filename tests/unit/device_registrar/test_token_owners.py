"""A token belongs to the row that took it last, over all users, in every order of rows, environments and snapshots."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.device_registrar.device_states import InMemoryDeviceStates, StatesOfDevice
from functions.device_registrar.endpoints import InMemoryEndpoints
from functions.device_registrar.token_holders import InMemoryTokenHolders
from functions.device_registrar.token_owners import MOST_HOLDERS
from masscomm.directory.generations import InMemoryCreationTimes
from masscomm.kafka.event import KafkaRecord
from tests.support.harness.device_registrar import Registrar, environment_of
from tests.support.inputs.debezium_records import row
from tests.support.interleavings import Environment

type Columns = dict[str, Any]


def device(
    number: int,
    user_id: int,
    token: str = "t",  # noqa: S107
    *,
    active: bool = True,
    updated_at: int = 0,
) -> Columns:
    columns = {"id": number, "user_id": user_id, "platform": "gcm", "token": token, "active": active}
    return columns | {"updated_at": updated_at}


def reasons(registrar: Registrar, generation: str = "g1") -> dict[str, str | None]:
    return {
        name: states.by_generation[generation].reason
        for name, states in sorted(registrar.states.stored.items())
        if generation in states.by_generation
    }


def moved() -> Registrar:
    """Return a registrar for a phone on which user 2 has logged in after user 1."""
    registrar = Registrar("g1", "g2")
    registrar.run(row("devices", "c", 10, device(1, 1)))
    registrar.run(row("devices", "c", 20, device(2, 2)))
    assert reasons(registrar) == {"1": "token_moved", "2": None}
    return registrar


@pytest.mark.guarantee("push.token_belongs_to_its_last_user")
def test_token_belongs_to_its_last_user() -> None:
    registrar = moved()
    state = registrar.state("1", "g1")
    assert (state.enabled, state.endpoint_arn) == (False, registrar.state("2", "g1").endpoint_arn)
    calls = registrar.take_calls()
    assert registrar.run(row("devices", "u", 30, device(1, 1, updated_at=30), device(1, 1))) == []
    assert reasons(registrar) == {"1": "token_moved", "2": None}
    assert registrar.take_calls() == [] != calls


@pytest.mark.guarantee("push.moved_token_comes_back")
@pytest.mark.parametrize("gone", ["deleted", "inactive", "another token"])
def test_token_comes_back_if_the_newer_row_ends(gone: str) -> None:
    registrar, before = moved(), device(2, 2)
    match gone:
        case "deleted":
            ending = row("devices", "d", 30, None, before)
        case "inactive":
            ending = row("devices", "u", 30, device(2, 2, active=False), before)
        case _:
            ending = row("devices", "u", 30, device(2, 2, "another"), before)
    registrar.take_calls()
    assert registrar.run(ending) == []
    assert registrar.state("1", "g1").enabled
    assert ("register", "t") not in registrar.take_calls()
    if gone == "inactive":
        # To be activated is a change of another column: the row took its token before.
        registrar.run(row("devices", "u", 40, before, device(2, 2, active=False)))
        assert reasons(registrar) == {"1": "token_moved", "2": None}


@pytest.mark.kills(guard="devices.when_taken")
def test_change_of_another_column_takes_no_token() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, 1)), row("devices", "c", 20, device(2, 2)))
    registrar.run(row("devices", "u", 30, device(1, 1, updated_at=30), device(1, 1)))
    assert reasons(registrar) == {"1": "token_moved", "2": None}
    registrar.run(row("devices", "u", 40, device(1, 3), device(1, 1)))
    assert reasons(registrar) == {"1": None, "2": "token_moved"}


def test_rows_of_one_user_share_a_token() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, 1)), row("devices", "c", 20, device(2, 1)))
    assert reasons(registrar) == {"1": None, "2": None}


def test_first_of_two_rows_in_one_batch_is_marked_at_once() -> None:
    registrar = Registrar()
    rows = [row("devices", "c", 20, device(2, 2)), row("devices", "c", 10, device(1, 1))]
    assert registrar.run(*rows) == []
    assert reasons(registrar) == {"1": "token_moved", "2": None}


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_snapshot_rows_are_ordered_by_update_and_id(order: Sequence[int]) -> None:
    """A streamed row comes after all rows of snapshots, whatever their times are."""
    registrar = Registrar()
    updated = {1: 7, 2: 9, 3: 9}
    for number in order:
        registrar.run(row("devices", "r", 5, device(number, number, updated_at=updated[number])))
    assert reasons(registrar) == {"1": "token_moved", "2": "token_moved", "3": None}
    registrar.run(row("devices", "c", 6, device(4, 4, updated_at=1)))
    assert reasons(registrar)["3"] == "token_moved"
    assert reasons(registrar)["4"] is None


@pytest.mark.kills(guard="devices.owner_in_a_new_snapshot")
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_new_snapshot_keeps_the_owner(order: Sequence[int]) -> None:
    """Row 1 was updated last, but row 2 took the token last."""
    registrar = moved()
    columns = {1: device(1, 1, updated_at=30), 2: device(2, 2, updated_at=20)}
    for number in order:
        registrar.run(row("devices", "r", 3, columns[number], generation="g2"))
    assert reasons(registrar, "g2") == {"1": "token_moved", "2": None}
    # The states of the earlier generation end, and what they have shown stays.
    later = Registrar("g2", before=registrar)
    for number in order:
        later.run(row("devices", "u", 3 + number, columns[number], columns[number], generation="g2"))
    assert reasons(registrar) == {}
    assert reasons(registrar, "g2") == {"1": "token_moved", "2": None}


def test_operator_enables_no_moved_device() -> None:
    registrar = Registrar()
    registrar.run(row("devices", "c", 10, device(1, 1)))
    stored = registrar.states.stored["1"]
    dead = replace(registrar.state("1", "g1"), enabled=False, reason="takes_nothing")
    registrar.states.stored["1"] = replace(stored, by_generation={"g1": dead})
    registrar.run(row("devices", "c", 20, device(2, 2)))
    enabled = replace(stored, by_generation={"g1": replace(dead, enabled=True, reason=None)})
    registrar.use_case._owners.store({"1": enabled}, {"1": {"t"}})
    assert reasons(registrar) == {"1": "token_moved", "2": None}


@pytest.mark.kills(guard="devices.most_holders")
def test_token_of_very_many_rows_keeps_the_last_ones() -> None:
    """Such a token, as "null", must not make a document and each batch grow with the table."""
    registrar = Registrar()
    rows = [row("devices", "c", 10 + number, device(number, number)) for number in range(1, MOST_HOLDERS + 21)]
    assert registrar.run(*rows[50:]) == []
    assert registrar.run(*rows[:50]) == []
    (holders,) = registrar.holders.stored.values()
    assert holders.device_ids == {str(number) for number in range(21, MOST_HOLDERS + 21)}
    assert [name for name, reason in reasons(registrar).items() if reason is None] == [str(MOST_HOLDERS + 20)]


def test_holders_end_with_their_rows() -> None:
    registrar = moved()
    registrar.run(row("devices", "d", 30, None, device(1, 1)), row("devices", "d", 31, None, device(2, 2)))
    assert [holders.device_ids for holders in registrar.holders.stored.values()] == [frozenset()]


@pytest.mark.kills(guard="devices.owners_read_again")
def test_row_that_another_environment_overtakes_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The later row finds no state of the earlier one, which is written with what was read before the later one."""
    registrar = Registrar()
    write = registrar.states.write

    def write_late(states: Mapping[str, StatesOfDevice]) -> dict[str, Exception | None]:
        monkeypatch.undo()
        Registrar("g1", before=registrar).run(row("devices", "c", 20, device(2, 2)))
        return write(states)

    monkeypatch.setattr(registrar.states, "write", write_late)
    assert registrar.run(row("devices", "c", 10, device(1, 1))) == []
    assert reasons(registrar) == {"1": "token_moved", "2": None}


@pytest.mark.kills(guard="devices.tokens_of_a_redelivered_row")
def test_redelivered_row_gives_its_token_back() -> None:
    """The invocation that stored the row's state ended before it changed the marks of the other rows."""
    registrar = moved()
    ended = replace(registrar.state("2", "g1"), token=None, user_id=None, taken=None, row_version=30, reason="deleted")
    stored = registrar.states.stored["2"]
    registrar.states.write({"2": replace(stored, by_generation={"g1": replace(ended, enabled=False)})})
    registrar.run(row("devices", "d", 30, None, device(2, 2)))
    assert reasons(registrar) == {"1": None, "2": "deleted"}


# --- all interleavings ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    device_id: int
    lsn: int
    op: str
    before: Columns | None
    after: Columns | None
    generation: str = "g1"

    def record(self) -> KafkaRecord:
        return row("devices", self.op, self.lsn, self.after, self.before, generation=self.generation)


@dataclass
class History:
    """The changes of the monolith's table, and what the captured ones show."""

    changes: list[Change] = field(default_factory=list)
    rows: dict[int, Columns] = field(default_factory=dict)

    def snapshot(self, generation: str) -> None:
        self.changes += [Change(number, 5, "r", None, each, generation) for number, each in self.rows.items()]

    def write(self, number: int, columns: Columns | None, lsn: int, *generations: str) -> None:
        before = self.rows.get(number)
        if before is None and columns is None:
            return
        op = "c" if before is None else "d" if columns is None else "u"
        if columns is None:
            del self.rows[number]
        else:
            self.rows[number] = columns
        self.changes += [Change(number, lsn, op, before, columns, each) for each in generations]


def expected(changes: Sequence[Change]) -> dict[tuple[str, int], tuple[bool, str | None]]:
    """Return the state of each row by the rule, of the changes in the order of the database."""
    rows: dict[tuple[str, int], Columns | None] = {}
    taken: dict[tuple[str, int], tuple[int, int, int]] = {}
    for level, generation in ((1, "g1"), (2, "g2")):
        for change in changes:
            if change.generation != generation:
                continue
            place, after = (generation, change.device_id), change.after
            if after is not None:
                if change.op != "r" and (rows.get(place) is None or _pair(rows[place]) != _pair(after)):
                    taken[place] = level, change.lsn, 0
                elif change.op == "r":
                    taken[place] = 0, after["updated_at"], 0
            rows[place] = after
    for generation, number in rows:
        earlier, now = rows.get(("g1", number)), rows[generation, number]
        if generation == "g2" and earlier is not None and now is not None and _pair(earlier) == _pair(now):
            place = ("g2", number)
            taken[place] = max(taken[place], taken["g1", number]) if taken[place][0] else taken["g1", number]
    found: dict[tuple[str, int], tuple[bool, str | None]] = {}
    for (generation, number), columns in rows.items():
        rivals = [
            (taken[generation, other], other, each["user_id"])
            for (name, other), each in rows.items()
            if name == generation and each is not None and each["active"] and columns is not None
            if each["token"] == columns["token"]
        ]
        if columns is None:
            found[generation, number] = False, "deleted"
        elif not columns["active"]:
            found[generation, number] = False, "inactive"
        else:
            is_own = max(rivals)[2] == columns["user_id"]
            found[generation, number] = is_own, None if is_own else "token_moved"
    return found


def _pair(columns: Columns | None) -> tuple[Any, Any] | None:
    return None if columns is None else (columns["user_id"], columns["token"])


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History()
    columns = st.builds(
        device,
        number=st.just(0),
        user_id=st.integers(1, 2),
        token=st.sampled_from("tu"),
        active=st.integers(0, 3).map(bool),
        updated_at=st.integers(1, 3),
    )
    for number in range(1, draw(st.integers(1, 4))):
        history.rows[number] = draw(columns) | {"id": number}
    history.snapshot("g1")
    # The first generation ends before or after the snapshot of the second one.
    end, second = draw(st.integers(0, 8)), draw(st.integers(0, 8))
    writes = st.tuples(st.integers(1, 3), st.none() | columns)
    for place, (number, each) in enumerate(draw(st.lists(writes, max_size=6))):
        if place == second:
            history.snapshot("g2")
        captured = [name for name, is_captured in (("g1", place < end), ("g2", place >= second)) if is_captured]
        after = None if each is None else each | {"id": number, "updated_at": 10 + place}
        history.write(number, after, 10 + place, *captured)
    return history


@dataclass
class Schedule:
    """Runs environments step by step, in the order that `choices` gives; some steps kill their environment."""

    choices: Iterator[int]
    kills: int

    def run(self, works: Sequence[Callable[[Environment], None]]) -> None:
        environments = [Environment(work) for work in works]
        for each in environments:
            each.begin()
        while alive := [each for each in environments if not each.over]:
            chosen = next(self.choices, 0)
            one = alive[chosen % len(alive)]
            is_killed = self.kills > 0 and chosen % 7 == 6
            one.go_on(crashing=is_killed)
            if one.error is not None:
                raise one.error
            if is_killed:
                self.kills -= 1
                number = environments.index(one)
                environments[number] = Environment(works[number])
                environments[number].begin()


class _Topic:
    """The states of devices as a consumer of the topic has them: of two states, the later one."""

    def __init__(self) -> None:
        self.states: dict[str, StatesOfDevice] = {}

    def produce(self, states: Mapping[str, StatesOfDevice]) -> None:
        for name, each in states.items():
            known = self.states.get(name)
            if known is None or (known.read_from or (0, 0)) <= (each.read_from or (0, 0)):
                self.states[name] = each


class _Publisher:
    def __init__(self, states: InMemoryDeviceStates, topic: _Topic) -> None:
        self._states = states
        self._topic = topic

    def publish(self, index: str, ids: Collection[str]) -> None:
        self._topic.produce(self._states.read(sorted(ids)))


@pytest.mark.guarantee("push.token_owner_in_every_order")
@given(
    history=histories(),
    places=st.lists(st.integers(0, 2), min_size=40, max_size=40),
    steps=st.lists(st.integers(0, 13), max_size=150),
    kills=st.integers(0, 2),
    batch=st.integers(1, 3),
)
def test_owners_follow_the_rule_in_every_interleaving(
    history: History, places: list[int], steps: list[int], kills: int, batch: int
) -> None:
    """Each environment has its changes in their order; the changes of one device may be in several environments. At the
    end, the topic has each state as it is stored.
    """
    programs: list[list[Change]] = [[], [], []]
    for change, place in zip(history.changes, places, strict=False):
        programs[place].append(change)
    states, holders, endpoints = InMemoryDeviceStates(), InMemoryTokenHolders(), InMemoryEndpoints()
    topic = _Topic()

    def work(program: Sequence[Change]) -> Callable[[Environment], None]:
        def invoked(environment: Environment) -> None:
            created = InMemoryCreationTimes(g1=1, g2=2)
            publisher = _Publisher(environment.steps(states), environment.steps(topic))
            invoke = environment_of(
                environment.steps(states), environment.steps(holders), endpoints, created, publisher
            )
            for start in range(0, len(program), batch):
                invoke([change.record() for change in program[start : start + batch]])

        return invoked

    Schedule(iter(steps), kills).run([work(program) for program in programs])
    assert topic.states == states.stored
    found: Mapping[tuple[str | None, int], tuple[bool, str | None]] = {
        (generation, int(name)): (state.enabled, state.reason)
        for name, stored in states.stored.items()
        for generation, state in stored.by_generation.items()
    }
    assert found == expected(history.changes), "\n".join(
        f"{place} {each}" for each, place in zip(history.changes, places, strict=False)
    )
