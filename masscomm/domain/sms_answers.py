"""The answers of recipients to SMS that opt out and in again: STOP and START, in the words that AWS requires.

Source: AWS End User Messaging SMS, "Required opt-out list keywords" and "Keywords".
"""

import string
from enum import StrEnum
from typing import NamedTuple

_STOP = frozenset(
    ("ARRET", "CANCEL", "END", "OPT-OUT", "OPTOUT", "QUIT", "REMOVE", "STOP", "TD", "UNSUBSCRIBE"),
)
_START = frozenset(("START", "UNSTOP"))
_AROUND = string.whitespace + string.punctuation


class Word(StrEnum):
    """The meaning of an answer."""

    STOP = "STOP"
    START = "START"


class SmsAnswer(NamedTuple):
    """An answer to an SMS, without its text."""

    # The number of the person, in the form of E.164.
    number: str
    # The number to which the person sent it.
    to: str
    word: Word
    # The time at which AWS published the answer, in ms since the epoch.
    at_ms: int
    # The provider's id of the message that it answers; None: AWS knows none.
    message_id: str | None


def word_in(text: str, keyword: str = "") -> Word | None:
    """Return the meaning of an answer; None if it is neither STOP nor START.

    Args:
        text: The text of the answer.
        keyword: The keyword that AWS has found in it. A text that only begins with STOP opts out, too.
    """
    found = text.strip(_AROUND).upper()
    if found in _START:
        return Word.START
    return Word.STOP if found in _STOP or keyword.strip().upper() in _STOP else None
