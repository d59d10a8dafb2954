"""Reads the answers of recipients to SMS, which AWS End User Messaging publishes to an SNS topic.

Only STOP and START are kept, without the text, because other answers may be private.

Source: docs.aws.amazon.com/sms-voice/latest/userguide/two-way-sms-payload.html, opt-out-list-self-managed.html
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from masscomm.domain.phone_numbers import e164
from masscomm.domain.sms_answers import SmsAnswer, Word, word_in
from masscomm.json_reader import InvalidJson, read_json

# The key that only answers have, in the documents of AWS and of `body_of`.
_ID = "inboundMessageId"


class MalformedAnswer(Exception):
    """An answer to an SMS lacks something. The message has no part of it."""


def body_of(message: str, published_at: Any) -> str | None:
    """Return the body of the receipt for a message of SNS: the message, or the kept fields of an answer to an SMS; None
    for an answer that is neither STOP nor START.

    The body of a redelivered answer is the same.

    Args:
        message: The text of the message.
        published_at: The time at which it was published, as SNS writes it.

    Raises:
        MalformedAnswer: It is an answer that cannot be read.
    """
    if _ID not in message:
        return message
    try:
        document = read_json(message)
    except InvalidJson:
        return message
    if not isinstance(document, dict) or _ID not in document:
        return message
    word = word_in(str(document.get("messageBody") or ""), str(document.get("messageKeyword") or ""))
    if word is None:  # guard: sms.other_answers
        return None
    try:
        kept = {
            _ID: str(document[_ID]),
            "word": word,
            "number": str(document["originationNumber"]),
            "to": str(document["destinationNumber"]),
            "at_ms": round(datetime.fromisoformat(published_at).timestamp() * 1000),
            "message_id": document.get("previousPublishedMessageId") or None,
        }
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedAnswer(type(error).__name__) from None
    return json.dumps(kept)


def is_answer(document: Mapping[str, Any]) -> bool:
    """Return whether a receipt's body is that of an answer."""
    return _ID in document


def answer_in(document: Mapping[str, Any]) -> SmsAnswer | None:
    """Return the answer in a receipt's body; None if it is not from a phone number. Raises KeyError, TypeError or
    ValueError.
    """
    number, message_id, at_ms = document["number"], document["message_id"], document["at_ms"]
    if type(at_ms) is not int or not isinstance(message_id, str | None):
        raise TypeError("an answer")
    if e164(number, None) != number:
        return None
    return SmsAnswer(number, document["to"], Word(document["word"]), at_ms, message_id)
