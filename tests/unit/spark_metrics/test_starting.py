import pytest

from masscomm.errors import Stop
from spark_metrics.common.broker import Ends
from spark_metrics.common.starting import check_topics, start_of
from spark_metrics.counting.status import passed

ENDS = Ends(
    first={("outcome", 0): 5, ("outcome", 1): 0, ("delivery", 0): 2},
    end={("outcome", 0): 9, ("outcome", 1): 4, ("delivery", 0): 7},
)


def test_empty_database_starts_at_the_earliest_offsets() -> None:
    assert start_of({}, ENDS, may_be_lost=False) == ENDS.first


def test_job_starts_at_merged_or_else_earliest_offsets() -> None:
    known = {("outcome", 0): 7, ("outcome", 1): 4, ("no topic of ours", 0): 0}
    begin = start_of(known, ENDS, may_be_lost=False)
    assert begin == {("outcome", 0): 7, ("outcome", 1): 4, ("delivery", 0): 2}


def test_offsets_beyond_the_topics_stop_the_job() -> None:
    with pytest.raises(Stop, match="these are not the topics that were counted"):
        start_of({("outcome", 1): 5}, ENDS, may_be_lost=True)


@pytest.mark.kills(guard="metrics.topic_id")
def test_recreated_topics_stop_the_job() -> None:
    """Offsets do not reveal a recreated topic, because it may be longer than the old one was."""
    counted = {"outcome": "an id", "delivery": "its id"}
    found = {"outcome": "another", "delivery": "its id", "new": "x"}
    with pytest.raises(Stop, match="outcome was deleted and made again"):
        check_topics(counted, found, {("outcome", 0): 5})
    # The job starts if no record of the recreated topic was counted, or if no id was stored.
    check_topics(counted, found, {("delivery", 0): 5})
    check_topics({}, found, {("outcome", 0): 5})


def test_uncounted_deleted_records_stop_the_job() -> None:
    """Only with SPARK_FAIL_ON_DATA_LOSS=false does the job start at the first record that Kafka still has."""
    known = {("outcome", 0): 4}
    with pytest.raises(Stop, match="outcome-0 is counted up to 4, but its records now begin at 5"):
        start_of(known, ENDS, may_be_lost=False)
    assert start_of(known, ENDS, may_be_lost=True)["outcome", 0] == 5


def test_offsets_are_passed_once_their_batch_is_finished() -> None:
    source = {"startOffset": {"outcome": {"0": 7}}, "endOffset": {"outcome": {"0": 10}}}
    assert passed({"batchId": 4, "sources": [source]}) == {("outcome", 0): 10}
    assert passed({"batchId": 0, "sources": [{"startOffset": None, "endOffset": None}]}) == {}
    assert passed(None) == {}
