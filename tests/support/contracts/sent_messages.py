"""The tests that every store of sent messages must pass, in memory and real."""

from dataclasses import replace

from functions.receipts.sent_messages import MessageFailure, OutcomeWithTrace, SentMessages
from masscomm.domain.records import NotificationOutcome, Result
from masscomm.domain.sms_answers import Word
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import NumberAnswer, Suppression
from masscomm.domain.time_limits import SENT_MESSAGES_KEPT_S
from masscomm.errors import DeadLetter
from masscomm.observability.traces import Trace
from tests.support.harness.chain import NOW, SEND_ID


def outcome(record_id: str, message_ids: list[list[str]], **values: object) -> NotificationOutcome:
    """Return the messages of one delivery record as they are stored: users 101, 102, … at positions 500, 501, …"""
    positions = list(range(500, 500 + len(message_ids)))
    usual = NotificationOutcome(
        record_id=record_id,
        parent_id="33333333-3333-5333-8333-333333333333",
        step="delivery",
        send_id=SEND_ID,
        chunk_index=2,
        range_start=500,
        range_end=1000,
        club_id=7,
        type="news",
        channel="push",
        timestamp=NOW,
        requested_at=NOW - 1_000,
        positions=positions,
        user_ids=[position - 399 for position in positions],
        results=[Result(status="sent", count=len(positions))],
        result_index=[0] * len(positions),
        provider_message_ids=message_ids,
    )
    return replace(usual, **values)  # type: ignore[arg-type]


NUMBER = "+4915123456789"


def answer(word: Word, at_ms: int, *, club_id: int = 7) -> NumberAnswer:
    return NumberAnswer(club_id, NUMBER, word, at_ms)


class SentMessagesContract:
    """Subclasses define the fixture `messages`, an empty store."""

    def test_a_message_is_found_by_each_of_its_ids_at_once(self, messages: SentMessages) -> None:
        first, second = outcome("a", [["1"], [], ["2", "3"]]), outcome("b", [["4"]], chunk_index=3)
        assert messages.store([OutcomeWithTrace(first), OutcomeWithTrace(second)]) == [None, None]
        found = messages.find(["1", "3", "4", "unknown"])
        assert found.keys() == {"1", "3", "4"}
        assert (found["1"].outcome_id, found["1"].position, found["1"].user_id) == ("a", 500, 101)
        assert (found["1"].send_id, found["1"].chunk_index, found["1"].club_id) == (SEND_ID, 2, 7)
        assert (found["1"].type, found["1"].channel, found["1"].requested_at) == ("news", "push", NOW - 1_000)
        assert (found["3"].position, found["3"].siblings, found["1"].siblings) == (502, ("2", "3"), ("1",))
        assert (found["4"].outcome_id, found["4"].chunk_index) == ("b", 3)

    def test_message_has_the_trace_of_its_record(self, messages: SentMessages) -> None:
        trace = Trace("ab" * 16, "cd" * 8, sampled=False, state="vendor=1")
        messages.store([OutcomeWithTrace(outcome("a", [["1"]]), trace), OutcomeWithTrace(outcome("b", [["2"]]))])
        found = messages.find(["1", "2"])
        assert (found["1"].trace, found["2"].trace) == (trace, None)

    def test_redelivered_record_changes_nothing(self, messages: SentMessages) -> None:
        messages.store([OutcomeWithTrace(outcome("a", [["1"]]))])
        assert messages.store([OutcomeWithTrace(outcome("a", [["1"]]))]) == [None]
        assert messages.find(["1"])["1"].outcome_id == "a"

    def test_ids_beyond_one_search_are_all_found(self, messages: SentMessages) -> None:
        records = [outcome(str(n), [[f"{n}-{m}"] for m in range(5)]) for n in range(130)]
        assert messages.store([OutcomeWithTrace(each) for each in records]) == [None] * 130
        wanted = [f"{n}-{n % 5}" for n in range(130)]
        assert {name: each.outcome_id for name, each in messages.find(wanted).items()} == {
            name: name.split("-")[0] for name in wanted
        }

    def test_repeated_failure_of_a_message_is_stored_once(self, messages: SentMessages) -> None:
        failures = [
            MessageFailure(message_id="1", reason=Reason.DEVICE_INACTIVE, at_ms=NOW),
            MessageFailure(message_id="2", reason=Reason.BOUNCED_TRANSIENT, at_ms=NOW),
        ]
        assert messages.store_failures(failures) == [None, None]
        assert messages.store_failures(failures[:1]) == [None]
        assert messages.failures(["1", "2", "3"]) == {"1": Reason.DEVICE_INACTIVE, "2": Reason.BOUNCED_TRANSIENT}
        assert messages.find(["1"]) == {}

    def test_old_messages_are_removed(self, messages: SentMessages) -> None:
        old, new = outcome("old", [["1"]], timestamp=NOW - SENT_MESSAGES_KEPT_S * 1000 - 1), outcome("new", [["2"]])
        messages.store([OutcomeWithTrace(old), OutcomeWithTrace(new)])
        assert messages.find(["1"])
        messages.purge(sent_before_ms=NOW - SENT_MESSAGES_KEPT_S * 1000)
        self.await_removal(messages)
        assert messages.find(["1", "2"]).keys() == {"2"}

    def await_removal(self, messages: SentMessages) -> None:
        """Repeat the purge until it has removed all expired messages."""

    def test_unstorable_record_fails_alone(self, messages: SentMessages) -> None:
        valid = [outcome(f"good-{number}", [[f"m{number}"]]) for number in range(3)]
        hostile = {
            "id of 600 bytes": outcome("x" * 600, [["h1"]]),
            "no id": outcome("", [["h2"]]),
            "message id of 40,000 bytes": outcome("h3", [["x" * 40_000]]),
            "end of time": outcome("h4", [["h4"]], timestamp=2**63 - 1),
            "before time": outcome("h5", [["h5"]], timestamp=-(2**63)),
        }
        errors = messages.store([OutcomeWithTrace(each) for each in (valid[0], *hostile.values(), *valid[1:])])
        failures = [name for name, error in zip(hostile, errors[1:6], strict=True) if isinstance(error, DeadLetter)]
        assert failures == [name for name in hostile if name != "end of time"]
        assert [errors[0], *errors[6:]] == [None] * 3
        assert messages.find(["m0", "m1", "m2", "x" * 40_000, "x" * 600, ""]).keys() == {"m0", "m1", "m2"}

    def test_a_refusal_with_a_hostile_id_is_refused_alone(self, messages: SentMessages) -> None:
        names = ["x" * 600, "", "good"]
        bounced = Reason.BOUNCED_PERMANENT
        errors = messages.store_failures([MessageFailure(message_id=name, reason=bounced, at_ms=NOW) for name in names])
        assert [isinstance(error, DeadLetter) for error in errors] == [True, False, False]
        assert messages.failures(names).keys() == {"", "good"}

    def test_answers_are_stored_in_the_order_of_their_times(self, messages: SentMessages) -> None:
        stop, start, last = answer(Word.STOP, NOW), answer(Word.START, NOW + 1), answer(Word.STOP, NOW + 2)
        other = answer(Word.STOP, NOW, club_id=8)
        assert messages.answer([stop, other]) == [stop, other]
        assert messages.answer([start, stop]) == [start, start]
        assert messages.answer([stop]) == [start]
        assert messages.answer([last, start]) == [last, last]

    def test_bounce_is_kept_over_an_answer(self, messages: SentMessages) -> None:
        bounce = Suppression(
            club_id=9, address=NUMBER, reason=Reason.BOUNCED_PERMANENT, at_ms=NOW, expires_ms=NOW + 1_000
        )
        assert messages.suppress([bounce, replace(bounce, expires_ms=NOW + 500)]) == [None, None]
        stop, start = answer(Word.STOP, NOW, club_id=9), answer(Word.START, NOW + 1, club_id=9)
        assert messages.answer([stop, start]) == [start, start]
        assert messages.suppress([bounce]) == [None]
