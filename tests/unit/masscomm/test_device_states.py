"""The state of a device that applies to its row, among the states in several snapshot generations."""

from typing import Any

import pytest

from masscomm.directory import documents
from masscomm.directory.device_states import document_of, state_for, state_in


def state(generation: str | None, token: str | None, *, enabled: bool = True) -> dict[str, Any]:
    return {"generation": generation, "token": token, "enabled": enabled, "endpoint_arn": f"arn:{generation}"}


@pytest.mark.kills(guard="devices.state_of_the_generation")
@pytest.mark.parametrize("enabled", [True, False])
def test_state_of_the_rows_generation_applies(enabled: bool) -> None:
    document = document_of([state("g1", "a", enabled=not enabled), state("g2", "a", enabled=enabled)])
    assert state_for(document, generation="g2", token="a")["generation"] == "g2"
    assert state_for(document, generation="g1", token="a")["generation"] == "g1"


@pytest.mark.parametrize("own", [[], [state("g2", "old")]], ids=["no state", "another token"])
def test_same_token_of_another_generation_applies_meanwhile(own: list[dict[str, Any]]) -> None:
    document = document_of([state("g1", "a", enabled=False), *own, state("g3", "a")])
    assert state_for(document, generation="g2", token="a")["generation"] == "g3"


def test_new_token_has_no_state() -> None:
    assert state_for(document_of([state("g1", "a"), state("g2", "b")]), generation="g2", token="c") == {}
    assert state_for({}, generation="g2", token="c") == {}


def test_device_without_token_and_state_can_be_read() -> None:
    row = {"user_id": 1, "platform": "gcm", "token": None}
    assert documents.device(7, row, {}, generation="g1").endpoint_arn is None


def test_listed_state_is_that_of_the_generation() -> None:
    document = document_of([state("g1", "a"), state("g2", None, enabled=False)])
    assert state_in(document, "g2")["enabled"] is False
    assert state_in(document, "g3")["generation"] == "g1"
