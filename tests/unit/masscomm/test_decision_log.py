"""The decision log: decisions are read complete, fit into an item, and need one write per record."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.decisions.parts import SPLIT_ABOVE
from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Reason, Status
from masscomm.errors import DeadLetter
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.decision_log.port import DecisionLog, Decisions, record_decisions
from tests.support.contracts.decision_log import DecisionLogContract

# Bytes for an item's values: DynamoDB's limit of 400 kB includes the names of attributes.
_ITEM_BYTES = 390_000


class TestInMemoryDecisionLog(DecisionLogContract):
    @pytest.fixture
    def log(self) -> DecisionLog:
        return InMemoryDecisionLog()


def _decisions(positions: list[int], by_channel: Mapping[str, Mapping[int, Decision]]) -> Decisions:
    return Decisions(positions=positions, user_ids=[position + 100 for position in positions], by_channel=by_channel)


DECISION = st.builds(
    Decision,
    status=st.sampled_from(Status),
    reason=st.none() | st.sampled_from(Reason),
    layer=st.sampled_from(["default", "user"]),
    rule=st.none() | st.text(max_size=5),
    settings_version=st.none() | st.integers(0, 2**60),
    until_ms=st.none() | st.integers(0, 2**43),
    settings_changed_at=st.none() | st.integers(0, 2**43),
)


@given(
    positions=st.lists(st.integers(0, 10_000), min_size=2, unique=True).map(sorted),
    data=st.data(),
    parts=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100))).map(tuple),
)
def test_later_decisions_return_the_first_ones(
    positions: list[int], data: st.DataObject, parts: tuple[tuple[int, int], ...]
) -> None:
    by_channel = data.draw(
        st.dictionaries(st.sampled_from(["push", "email"]), st.dictionaries(st.sampled_from(positions), DECISION))
    )
    log, first = InMemoryDecisionLog(), _decisions(positions, by_channel)
    assert record_decisions(log, "r", first) == first
    later = _decisions(positions, {"push": {positions[0]: Decision(Status.EXPIRED)}})
    again = record_decisions(log, "r", later)
    assert again.by_channel == by_channel
    assert again.parts == first.parts == ()
    assert record_decisions(log, "other", later) == later
    cut = Decisions(positions=positions, user_ids=positions, by_channel=by_channel, parts=parts)
    assert record_decisions(log, "cut", cut) == cut
    assert record_decisions(log, "cut", Decisions(positions=positions, user_ids=positions, by_channel={})) == cut


def test_decision_about_one_recipient_is_not_recorded() -> None:
    log = InMemoryDecisionLog()
    alone = _decisions([3], {"push": {3: Decision(Status.EXPIRED)}})
    assert record_decisions(log, "r", alone) == alone
    assert log.calls == 0


def test_other_recipients_under_the_same_id_are_a_bad_record() -> None:
    log = InMemoryDecisionLog()
    record_decisions(log, "r", Decisions(positions=[0, 1], user_ids=[1, 2], by_channel={}))
    for positions, user_ids in (([0, 1], [1, 3]), ([0, 2], [1, 2]), ([0, 1, 2], [1, 2, 3])):
        with pytest.raises(DeadLetter):
            record_decisions(log, "r", Decisions(positions=positions, user_ids=user_ids, by_channel={"push": {}}))


def test_largest_decisions_of_a_record_fit_into_an_item() -> None:
    throw = random.Random(1)  # noqa: S311
    versions = {position: throw.getrandbits(43) for position in range(SPLIT_ABOVE)}

    def opted_out(channel: str) -> dict[int, Decision]:
        rules = (f"channel:{channel}", f"category:{'x' * 128}", f"category:{'x' * 128} channel:{channel}")
        return {
            position: Decision(
                *(Status.SUPPRESSED, Reason.OPTED_OUT, "user", throw.choice(rules), version),
                settings_changed_at=throw.getrandbits(41),
            )
            for position, version in versions.items()
            if throw.random() < 0.9
        }

    by_channel = {channel: opted_out(channel) for channel in ("push", "email")}
    unknown = Decision(Status.FAILED, Reason.UNKNOWN_CHANNEL, "default", "channel:pigeon")
    by_channel |= {f"pigeon{n}": dict.fromkeys(versions, unknown) for n in range(14)}
    log = InMemoryDecisionLog()
    record_decisions(log, "r", _decisions(list(versions), by_channel))
    assert len(log.recorded["r"]) < _ITEM_BYTES
