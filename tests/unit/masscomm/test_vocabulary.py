"""Ids, statuses, outcomes, topics, categories and settings on which other modules depend."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm import environment
from masscomm.domain import ids
from masscomm.domain.categories import categories, category, resolve_channels
from masscomm.domain.channels import CHANNELS
from masscomm.domain.lanes import Lane
from masscomm.domain.outcomes import DEAD_LETTERED, EXPIRED, RecipientOutcome, outcome
from masscomm.domain.preferences import Decision
from masscomm.domain.records import NotificationOutcome
from masscomm.domain.statuses import RANK, TERMINAL, Reason, Status, merge
from masscomm.domain.users import DirectoryPosition
from masscomm.errors import Stop
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, SEND_ID, build

STATUSES = st.sampled_from(Status)
PUBLISHED = {Status.SENT, Status.DELIVERED, Status.BOUNCED}


def test_derived_ids_never_change() -> None:
    """If an id changed, a deployment would count and send the records under way twice."""
    chunk = ids.chunk_id(SEND_ID, 3)
    assert ids.send_id_of_record("send.monolith", 2, 41, NOW) == "292107ef-cd27-55ec-abb5-35a13f03e571"
    assert chunk == "c10c5734-cfed-54ce-9d9f-f79d428503ec"
    assert ids.derived_id(chunk, "build", "push", 0, 500) == "59a5405e-9296-5a80-ba0f-e3542f044e01"
    assert ids.notification_id(SEND_ID, 12, "push") == "2621a0ab-d756-57c0-b930-b526c9bf4bef"
    assert ids.event_message_id(7, "e1", "ep_7_a") == "evt_be98971f118e5f72a4af69d0b2f79a5a"
    assert ids.webhook_record_id("event", 3, 256, 512, 17) == "7e6f70de-6807-59f7-9066-05b8e3411caa"


def test_ids_differ_by_each_of_their_parts() -> None:
    parts = [("p", "build", "push", 0, 500), ("q", "build", "push", 0, 500), ("p", "delivery", "push", 0, 500)]
    parts += [("p", "build", "email", 0, 500), ("p", "build", "push", 500, 1000), ("p", "build", "push", 0, 250)]
    assert len({ids.derived_id(*part) for part in parts}) == len(parts)


def test_every_status_has_a_rank_of_its_own() -> None:
    assert set(RANK) == set(Status)
    assert len(set(RANK.values())) == len(Status)


@given(STATUSES, STATUSES)
def test_merging_does_not_depend_on_the_order(a: Status, b: Status) -> None:
    assert merge(a, b) is merge(b, a)


@given(STATUSES, STATUSES, STATUSES)
def test_merging_does_not_depend_on_the_grouping(a: Status, b: Status, c: Status) -> None:
    assert merge(merge(a, b), c) is merge(a, merge(b, c))


@given(STATUSES)
def test_merging_a_status_with_itself_changes_nothing(a: Status) -> None:
    assert merge(a, a) is a


@given(STATUSES, STATUSES)
def test_merge_returns_one_of_the_two(a: Status, b: Status) -> None:
    assert merge(a, b) in (a, b)


@given(st.sampled_from(sorted(PUBLISHED)), st.sampled_from(sorted(set(Status) - PUBLISHED)))
def test_proof_of_publishing_beats_every_status_that_is_not_sent(published: Status, other: Status) -> None:
    assert merge(published, other) is published


@given(st.sampled_from(sorted(TERMINAL)), st.sampled_from(sorted(set(Status) - TERMINAL)))
def test_terminal_status_outranks_open_ones(terminal: Status, other: Status) -> None:
    assert merge(terminal, other) is terminal


def outcome_of(outcomes: list[RecipientOutcome], directory: DirectoryPosition | None = None) -> NotificationOutcome:
    return outcome(
        build([]), outcomes, channel="push", step="delivery", start=0, end=500, now_ms=NOW, directory=directory
    )


DECISIONS = st.sampled_from(
    [DEAD_LETTERED, EXPIRED, Decision(Status.SENT, None, "provider")]
    + [Decision(Status.SUPPRESSED, Reason.OPTED_OUT, "user", "channel:push", version) for version in (1, 2)]
)


@given(st.lists(DECISIONS, min_size=1, max_size=40))
def test_outcome_has_and_counts_the_decision_of_each_position(decisions: list[Decision]) -> None:
    everybody = [RecipientOutcome(place, 100 + place, decision) for place, decision in enumerate(decisions)]
    record = outcome_of(everybody)
    read = [(record.results[place].status, record.results[place].settings_version) for place in record.result_index]
    assert read == [(decision.status, decision.settings_version) for decision in decisions]
    assert [result.count for result in record.results] == list(Counter(record.result_index).values())
    assert sum(result.count for result in record.results) == len(decisions)
    assert record.user_ids == [100 + place for place in record.positions]


def test_outcome_has_the_age_of_the_directory() -> None:
    position = DirectoryPosition(lsn=99, ts_ms=NOW - 40)
    record = outcome_of([RecipientOutcome(0, 1, EXPIRED)], directory=position)
    assert (record.results[0].cdc_position, record.results[0].staleness_ms) == (99, 40)


def test_outcome_without_message_ids_has_no_such_column() -> None:
    outcomes = [RecipientOutcome(0, 1, EXPIRED), RecipientOutcome(1, 2, EXPIRED)]
    record = outcome_of(outcomes)
    assert record.provider_message_ids == []


def test_outcome_of_an_allowed_recipient_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed notification"):
        outcome_of([RecipientOutcome(0, 1, Decision(None))])


def test_dead_letter_outcome_has_an_id_of_its_own() -> None:
    before, after = (outcome_of([RecipientOutcome(0, 1, why)]) for why in (EXPIRED, DEAD_LETTERED))
    assert before.record_id != after.record_id


def test_critical_lane_has_its_own_topic_if_it_exists() -> None:
    assert topics.in_lane(topics.BUILD, Lane.CRITICAL) == "build.critical"
    assert topics.in_lane(topics.BUILD, Lane.BULK) == "build"
    assert topics.in_lane(topics.OUTCOME, Lane.CRITICAL) == "outcome"
    assert topics.resolve("build", lane=Lane.CRITICAL, generation="g2") == ["build.critical"]


def test_bulk_function_serves_the_small_lane_first() -> None:
    queues = ["build", "build.bulk2", "build.bulk3", "build.bulk4"]
    assert topics.resolve("build", lane=Lane.BULK, generation="g2") == ["build.small", *queues]
    assert topics.resolve("send.api", lane=Lane.BULK, generation="g2") == ["send.api"]


def test_topic_name_contains_its_lane_and_base() -> None:
    for topic in topics.chain_topics():
        assert topics.in_lane(topics.base_of(topic.name), topics.lane_of(topic.name)) == topic.name
    assert topics.same_lane(topics.DELIVERY, "build.small") == "delivery.small"
    assert topics.same_lane(topics.OUTCOME, "delivery.small") == "outcome"


def test_every_topic_of_the_code_is_in_the_file_once_a_lane() -> None:
    names = [topic.name for topic in topics.chain_topics()]
    assert len(names) == len(set(names))
    constants = {topics.SEND_MONOLITH, topics.SEND_API, topics.BUILD, topics.DELIVERY, topics.OUTCOME}
    constants |= {
        topics.AUDIENCE,
        topics.RECHECK,
        topics.DEAD_LETTER,
        topics.DEAD_LETTER_STATUS,
        topics.ON_FAILURE,
        topics.DEVICE_STATUS,
        topics.PREFERENCE_CHANGE,
        topics.DIRECTORY_DOCUMENT,
        topics.RECEIPT,
        topics.EVENT,
        topics.SUBSCRIPTION,
        topics.WEBHOOK,
        topics.WEBHOOK_BATCHED,
        topics.WEBHOOK_SLOW,
        topics.WEBHOOK_OUTCOME,
    }
    assert {topics.base_of(name) for name in names} == constants


def test_dead_letter_topic_takes_records_of_every_topic() -> None:
    sizes = {topic.name: topic.max_message_bytes for topic in (*topics.chain_topics(), *topics.cdc_topics("g1"))}
    dead_letter = sizes.pop(topics.DEAD_LETTER)
    assert all(size < dead_letter for size in sizes.values())


def test_a_cdc_topic_carries_its_generation() -> None:
    assert topics.resolve("cdc.users", lane=Lane.BULK, generation="g2") == ["cdc.g2.public.users"]
    assert {topic.name for topic in topics.cdc_topics("g2")} >= {"cdc.g2.public.devices", "cdc.g2.notification"}
    assert all(topic.name.startswith(topics.cdc_prefix("g2")) for topic in topics.cdc_topics("g2"))


def test_unlisted_category_has_the_default() -> None:
    assert category("never heard of") == category("default")
    assert resolve_channels("never heard of", [], 1, None) == ["push"]


def test_requested_channels_are_unique_and_in_order() -> None:
    assert resolve_channels("newsletter", ["push", "email", "push"], 1, None) == ["push", "email"]
    assert resolve_channels("security_alert", [], 1, None) == ["push", "email"]


def test_every_category_names_known_channels() -> None:
    assert all(set(entry.channels) <= set(CHANNELS) and entry.channels for entry in map(category, categories()))


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_URL", raising=False)
    with pytest.raises(Stop, match="SOME_URL"):
        environment.required("SOME_URL")


@pytest.mark.parametrize("text", ["seven", "nan", "inf", "1e999", "1_0", " 1", "1.", "\u0661"])
def test_a_variable_that_is_not_a_number_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SOME_LIMIT", text)
    with pytest.raises(Stop, match="SOME_LIMIT"):
        environment.number("SOME_LIMIT", 1)


def test_absent_numeric_variable_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_LIMIT", "2.5")
    assert environment.number("SOME_LIMIT", 1) == 2.5
    monkeypatch.setenv("SOME_LIMIT", "")
    assert environment.number("SOME_LIMIT", 1) == 1


@pytest.mark.parametrize("text", ["1.5", "1e3", "1_0", "01", "0", "-1"])
def test_a_variable_that_is_not_a_whole_number_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SOME_LIMIT", text)
    with pytest.raises(Stop, match="SOME_LIMIT"):
        environment.whole_number("SOME_LIMIT", 7, lowest=1)


def test_a_whole_number_has_its_value_or_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_LIMIT", "40")
    assert environment.whole_number("SOME_LIMIT", 7) == 40
    monkeypatch.setenv("SOME_LIMIT", "")
    assert environment.whole_number("SOME_LIMIT", 7) == 7


def test_malformed_list_of_numbers_is_a_stop_naming_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_WAITS", "1, 2.5,30")
    assert environment.numbers("SOME_WAITS", (7,)) == (1, 2.5, 30)
    monkeypatch.setenv("SOME_WAITS", "")
    assert environment.numbers("SOME_WAITS", (7,)) == (7,)
    monkeypatch.setenv("SOME_WAITS", "1,,2")
    with pytest.raises(Stop, match="SOME_WAITS"):
        environment.numbers("SOME_WAITS", (7,))


@pytest.mark.parametrize("text", ["0", "5", "all"])
def test_number_of_queues_that_do_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("BROADCAST_QUEUES", text)
    with pytest.raises(Stop, match="BROADCAST_QUEUES"):
        environment.broadcast_queues()
    monkeypatch.setenv("BROADCAST_QUEUES", "2")
    assert environment.broadcast_queues() == (Lane.BULK, Lane.BULK_2)


def test_a_lane_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASSCOMM_LANE", "express")
    with pytest.raises(Stop, match="MASSCOMM_LANE"):
        environment.lane()
    monkeypatch.delenv("MASSCOMM_LANE")
    assert environment.lane() is Lane.BULK
