"""STOP and START by SMS that several environments of receipts apply at the same time, in every order of their steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from functions.receipts.apply_answers import ApplyAnswers, Preferences
from functions.receipts.sent_messages import InMemorySentMessages
from masscomm.directory.document_publisher import InMemoryDocumentPublisher
from masscomm.domain.preference_changes import PreferenceChanges, Wish
from masscomm.domain.sms_answers import SmsAnswer, Word
from masscomm.domain.suppressions import NumberAnswer, suppressed
from masscomm.domain.users import User
from tests.support.harness.chain import NOW
from tests.support.harness.receipts import Receipts, apply_answers
from tests.support.inputs.receipt_events import NUMBER
from tests.support.sms import ANSWERED_AT, CLUB, sms_settings

ADA = User(user_id=101, club_id=CLUB, phone=NUMBER)


class Killed(BaseException):
    """The process of an environment is killed."""


@dataclass
class Environment:
    """An environment that applies one answer, and pauses before each step.

    Attributes:
        kill_at: The step at which it is killed; None: it is not.
    """

    answer: SmsAnswer
    kill_at: int | None
    steps: int = 0
    ended: bool = False
    begin: Queue[None] = field(default_factory=Queue)
    paused: Queue[None] = field(default_factory=Queue)

    def pause(self) -> None:
        self.paused.put(None)
        self.begin.get()
        self.steps += 1
        if self.steps == self.kill_at:
            raise Killed

    def run(self, use_case: ApplyAnswers) -> None:
        try:
            assert use_case.apply([self.answer]) == [None]
        except Killed:
            pass
        finally:
            self.ended = True
            self.paused.put(None)

    def step(self) -> None:
        self.begin.put(None)
        self.paused.get()


@dataclass
class PausingMessages:
    messages: InMemorySentMessages
    pause: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.messages, name)

    def answer(self, answers: Sequence[NumberAnswer]) -> list[NumberAnswer | Exception]:
        self.pause()
        return self.messages.answer(answers)


@dataclass
class PausingPreferences:
    preferences: Preferences
    pause: Callable[[], None]

    def apply_answer(self, user_id: int, clubs: frozenset[int], answer: SmsAnswer) -> None:
        self.pause()
        self.preferences.apply_answer(user_id, clubs, answer)


@pytest.mark.kills(guard="sms.newer_answer")
@pytest.mark.kills(guard="sms.late_start")
@given(
    words=st.lists(st.sampled_from(Word), min_size=2, max_size=3),
    kills=st.lists(st.none() | st.integers(1, 4), min_size=3, max_size=3),
    order=st.lists(st.integers(0, 2), max_size=12),
)
# The older answer is stored, then the newer one is stored and applied, then the older one is applied.
@example(words=[Word.STOP, Word.START], kills=[None, None, None], order=[0, 1, 1, 0])
@example(words=[Word.START, Word.STOP], kills=[None, None, None], order=[0, 1, 1, 0])
@example(words=[Word.STOP, Word.START], kills=[3, None, None], order=[0, 1, 1, 0])
@settings(max_examples=60, deadline=None)
def test_newest_answer_applies_in_every_interleaving(
    words: list[Word], kills: list[int | None], order: list[int]
) -> None:
    with sms_settings():
        receipts, messages = Receipts(), InMemorySentMessages()
        receipts.directory.put(ADA)
        use_case = apply_answers(receipts, messages, InMemoryDocumentPublisher(), receipts.directory)
        answers = [
            SmsAnswer(number=NUMBER, to=ANSWERED_AT, word=word, at_ms=NOW - 1_000 + place, message_id=None)
            for place, word in enumerate(words)
        ]
        environments = [Environment(answer, kill) for answer, kill in zip(answers, kills, strict=False)]
        for each in environments:
            pausing = replace(
                use_case,
                messages=PausingMessages(messages, each.pause),
                preferences=PausingPreferences(use_case.preferences, each.pause),
            )
            Thread(target=each.run, args=(pausing,), daemon=True).start()
            each.paused.get()
        for number in order:
            chosen = environments[number % len(environments)]
            if not chosen.ended:
                chosen.step()
        for each in environments:
            while not each.ended:
                each.step()
        # The records of killed environments are delivered again.
        killed = [each.answer for each in environments if each.kill_at is not None and each.steps >= each.kill_at]
        assert use_case.apply(killed) == [None] * len(killed)
        is_out = words[-1] is Word.STOP
        assert (NUMBER in suppressed(CLUB, [NUMBER], messages.suppressions, NOW)) is is_out
        document = receipts.directory.preference_changes.get(ADA.user_id)
        wishes = [] if document is None else [each.wish for each in PreferenceChanges.read(document).changes]
        assert (Wish(None, "sms", False) in wishes) is is_out
