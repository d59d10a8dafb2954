"""docs/access.md has the simulator recipients of masscomm/domain/simulator.py."""

import re

from local.devstack.config import ROOT
from masscomm.domain.simulator import FIRST_ID, LAST_ID, RESULTS, simulate
from masscomm.domain.statuses import Reason

PAGE = (ROOT / "docs" / "access.md").read_text()


def test_documented_simulator_recipients_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| (9\d{15})[^|]*\| (.*) \|$", PAGE, re.MULTILINE))
    assert rows.keys() == {str(FIRST_ID + number) for number in (*RESULTS, 11)}
    for user_id, shown in rows.items():
        decision = simulate(int(user_id), "push")
        status, reason = (text.strip() for text in shown.split("|"))
        assert status == decision.status
        assert reason.startswith(decision.reason or "")
        assert bool(reason) == bool(decision.reason)
    assert f"{FIRST_ID} to {LAST_ID}" in PAGE


# The reasons without a recipient of their own, and how a test key meets them otherwise.
WITHOUT_AN_ID = {
    Reason.NO_DEVICE: "recipient 12, by push",
    Reason.NO_ADDRESS: "recipient 12, by e-mail",
    Reason.CANCELLED: "a send is cancelled, and not a recipient",
    Reason.NOT_NEEDED: "recipient 1, on a channel that waits for another one",
    Reason.REPLACED: "the provider is busy for the time of a fallback",
    Reason.UNKNOWN_CHANNEL: "the API refuses the request",
    Reason.DEAD_LETTER: "the API refuses what would make it",
}


def test_each_reason_has_a_simulator_recipient() -> None:
    found = {reason for _, reason in RESULTS.values() if reason}
    assert found | WITHOUT_AN_ID.keys() == set(Reason)
    assert found.isdisjoint(WITHOUT_AN_ID)
