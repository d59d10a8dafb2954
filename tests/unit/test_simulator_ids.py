"""docs/api-keys.md has the simulator recipients of masscomm/domain/simulator.py."""

import re

from devstack.config import ROOT
from masscomm.domain.simulator import FIRST_ID, LAST_ID, RESULTS, simulate

PAGE = (ROOT / "docs" / "api-keys.md").read_text()


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
