"""When a device token moves to another user, each live device keeps a live endpoint, in any order of the steps."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from functions.device_registrar.device_states import InMemoryDeviceStates
from functions.device_registrar.endpoints import InMemoryEndpoints
from functions.device_registrar.token_holders import InMemoryTokenHolders
from masscomm.directory.generations import InMemoryCreationTimes
from masscomm.kafka.event import KafkaRecord
from tests.support.harness.device_registrar import environment_of
from tests.support.inputs.debezium_records import row
from tests.support.interleavings import Environment, every_order

type Row = dict[str, Any] | None
GONE: Row = None


def phone(device_id: int, token: str, *, active: bool = True) -> dict[str, Any]:
    return {"id": device_id, "user_id": device_id, "platform": "gcm", "token": token, "active": active}


@dataclass(frozen=True)
class Change:
    device_id: int
    lsn: int
    row: Row
    generation: str = "g1"

    def record(self) -> KafkaRecord:
        before = phone(self.device_id, "?")
        return row("devices", "d" if self.row is None else "u", self.lsn, self.row, before, generation=self.generation)


FIRST = [Change(1, 10, phone(1, "t")), Change(2, 10, phone(2, "u"))]
# Case → for each environment the changes that it processes, one in each invocation.
CASES: dict[str, list[list[Change]]] = {
    "deleted while another registers": [[Change(1, 20, GONE)], [Change(3, 20, phone(3, "t"))]],
    "inactive while another registers": [[Change(1, 20, phone(1, "t", active=False))], [Change(3, 20, phone(3, "t"))]],
    "another token while another registers": [[Change(1, 20, phone(1, "v"))], [Change(3, 20, phone(3, "t"))]],
    "two swap their tokens": [[Change(1, 20, phone(1, "u"))], [Change(2, 20, phone(2, "t"))]],
    "there and back": [
        [Change(1, 20, GONE), Change(1, 40, phone(1, "t"))],
        [Change(3, 20, phone(3, "t")), Change(3, 30, GONE)],
    ],
    "three hands": [[Change(1, 20, GONE)], [Change(2, 20, phone(2, "t"))], [Change(3, 30, phone(3, "t"))]],
    "two environments with one partition": [[Change(1, 20, phone(1, "v"))], [Change(1, 30, phone(1, "w"))]],
    "a later generation with lower positions": [
        [Change(1, 20, phone(1, "v"))],
        [Change(1, 2, phone(1, "v"), "g2")],
    ],
}


def _every_order(programs: Sequence[Sequence[Change]], crashes: int) -> int:
    changes = sorted((change for program in programs for change in program), key=lambda change: change.lsn)
    newest = {(change.device_id, change.generation): change for change in (*FIRST, *changes)}

    def make() -> tuple[list[Callable[[Environment], None]], Callable[[], None]]:
        states, holders, endpoints = InMemoryDeviceStates(), InMemoryTokenHolders(), InMemoryEndpoints()
        for change in FIRST:
            environment_of(states, holders, endpoints, InMemoryCreationTimes())([change.record()])

        def work(program: Sequence[Change]) -> Callable[[Environment], None]:
            def invoked(environment: Environment) -> None:
                # Reads of the passes that follow belong to the step before them: test_token_owners.py has all steps.
                invoke = environment_of(
                    environment.steps(states, "write"), holders, environment.steps(endpoints), InMemoryCreationTimes()
                )
                for change in program:
                    environment.step()
                    invoke([change.record()])

            return invoked

        def check() -> None:
            for (device_id, generation), change in newest.items():
                state = states.stored[str(device_id)].by_generation[generation]
                live = change.row is not None and change.row["active"] and not _has_moved(change, newest.values())
                assert (state.row_version, state.enabled) == (change.lsn, live)
                if change.row is not None and live:
                    assert state.token == change.row["token"]
                    assert endpoints.enabled.get(state.endpoint_arn or "") is True

        return [work(program) for program in programs], check

    return sum(1 for _ in every_order(make, crashes=crashes))


def _has_moved(change: Change, others: Iterable[Change]) -> bool:
    """Return whether the row of another user has taken the token later."""
    rows = [(each.lsn, each.row) for each in others if each.generation == change.generation and each.row is not None]
    return change.row is not None and any(
        lsn > change.lsn and row["active"] and row["token"] == change.row["token"] for lsn, row in rows
    )


# Environments that change the holders of a token at a time repeat their passes, in thousands of orders.
NIGHTLY = {"there and back", "three hands"}


@pytest.mark.guarantee("push.new_owner_keeps_endpoint")
@pytest.mark.parametrize(
    "programs",
    [pytest.param(each, id=name, marks=[pytest.mark.nightly] * (name in NIGHTLY)) for name, each in CASES.items()],
)
def test_live_devices_keep_endpoints_in_every_order(programs: Sequence[Sequence[Change]]) -> None:
    assert _every_order(programs, crashes=0) >= 10


@pytest.mark.nightly
@pytest.mark.parametrize("programs", [p for p in CASES.values() if len(p) == 2], ids=range(7))
def test_live_devices_keep_endpoints_after_a_crash(programs: Sequence[Sequence[Change]]) -> None:
    if sum(map(len, programs)) == 2:
        assert _every_order(programs, crashes=1) >= 30
