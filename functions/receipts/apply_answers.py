"""Applies the answers STOP and START to SMS: to the suppression list at once, and to the preferences of the users who
have the number.

An answer concerns the clubs (tenants) whose SMS it answers: the one that sent the message, if AWS names a message that
is known, else each club whose sender has the number that was answered.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from aws_lambda_powertools import Logger

from functions.receipts.sent_messages import SentMessage, SentMessages
from masscomm.directory.document_publisher import DocumentPublisher
from masscomm.directory.phones import users_of_phone
from masscomm.directory.port import Directory
from masscomm.domain.sms_answers import SmsAnswer
from masscomm.domain.sms_settings import number_of, sms_table
from masscomm.domain.suppressions import INDEX as SUPPRESSIONS
from masscomm.domain.suppressions import NumberAnswer
from masscomm.domain.users import User
from masscomm.errors import Retry

_CHANNEL = "sms"
# How often preferences are changed again because the person has answered meanwhile.
_ROUNDS = 5


class Preferences(Protocol):
    """Changes the preferences of users; masscomm.directory.change_preferences.ChangePreferences."""

    def apply_answer(self, user_id: int, clubs: frozenset[int], answer: SmsAnswer) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ApplyAnswers:
    """The use case. Each function environment has one instance."""

    messages: SentMessages
    publisher: DocumentPublisher
    directory: Directory
    preferences: Preferences
    logger: Logger

    def apply(self, answers: Sequence[SmsAnswer]) -> list[Exception | None]:
        """Apply answers; return the error of each, or None. A repetition changes nothing."""
        known = self.messages.find({each.message_id for each in answers if each.message_id is not None})
        looked_up = [self._users(each, known.get(each.message_id or "")) for each in answers]
        clubs = [
            self._clubs(each, known.get(each.message_id or ""), users)
            for each, (users, _) in zip(answers, looked_up, strict=True)
        ]
        errors = [error for _, error in looked_up]
        results = iter(
            self._suppress([(each, club) for each, some in zip(answers, clubs, strict=True) for club in some])
        )
        for place, (answer, some) in enumerate(zip(answers, clubs, strict=True)):
            of_answer = {club: next(results) for club in some}
            errors[place] = next((each for each in of_answer.values() if isinstance(each, Exception)), errors[place])
            newest = [each for each in of_answer.values() if isinstance(each, NumberAnswer)]
            users, _ = looked_up[place]
            errors[place] = errors[place] or self._change_preferences(answer, users, newest)
        return errors

    def _users(self, answer: SmsAnswer, message: SentMessage | None) -> tuple[list[User], Exception | None]:
        """Return the users who have the number, or the error of the look-up: suppressions do not wait for it."""
        try:
            users = users_of_phone(self.directory, answer.number)
            if message is not None and message.user_id not in {each.user_id for each in users}:
                # Its row may be older than the look-up by number.
                others = self.directory.users([message.user_id]).values()
                users += [each for each in others if number_of(each.club_id, each.phone or "") == answer.number]
        except Retry as error:
            return [], error
        return users, None

    def _clubs(self, answer: SmsAnswer, message: SentMessage | None, users: Sequence[User]) -> list[int]:
        """Return the clubs that an answer concerns, in their order."""
        table, sent_by = sms_table(), set[int]()
        if message is not None and message.channel == _CHANNEL:
            sent_by.add(message.club_id)
        # Clubs with the default sender are not listed: those whose users have the number.
        candidates = {*table.of_clubs, *sent_by, *(each.club_id for each in users)}
        # guard: sms.stop_of_owner
        owners = {club for club in candidates if table.club(club).is_answered_at(answer.to)}
        found = sent_by & owners or owners or sent_by
        if not found:
            self.logger.warning("an answer to a number of no tenant")
        return sorted(found)

    def _suppress(self, pairs: Sequence[tuple[SmsAnswer, int]]) -> list[NumberAnswer | Exception]:
        """Store answers for clubs. Return the newest answer of each number to the club, or the error."""
        if not pairs:
            return []
        several = [NumberAnswer(club, each.number, each.word, each.at_ms) for each, club in pairs]
        results = self.messages.answer(several)
        self.publisher.publish(SUPPRESSIONS, {each.id for each in several})  # guard: sms.answers_published
        return results

    def _change_preferences(
        self, answer: SmsAnswer, users: Sequence[User], newest: Sequence[NumberAnswer]
    ) -> Exception | None:
        """Change the preferences of users as the newest answer to their club wants it."""
        for each in newest:
            own = [user.user_id for user in users if user.club_id == each.club_id]
            error = self._apply_newest(answer, own, each) if own else None
            if error is not None:
                return error
        return None

    def _apply_newest(self, answer: SmsAnswer, user_ids: Sequence[int], newest: NumberAnswer) -> Exception | None:
        """Apply the newest answer of a number to preferences. A newer one may have been applied before it meanwhile,
        and is then applied again.
        """
        for _ in range(_ROUNDS):
            wanted = answer._replace(word=newest.word, at_ms=newest.at_ms)
            for user_id in user_ids:
                apply = partial(self.preferences.apply_answer, user_id, frozenset([newest.club_id]), wanted)
                if (error := _error_of(apply)) is not None:
                    return error
            (found,) = self.messages.answer([newest])
            # guard: sms.newer_answer
            if isinstance(found, Exception) or found == newest:
                return found if isinstance(found, Exception) else None
            newest = found
        return Retry("the person answers all the time")


def _error_of(call: Callable[[], None]) -> Exception | None:
    try:
        call()
    except Retry as error:
        return error
    return None
