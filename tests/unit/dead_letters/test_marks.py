"""The marks of replayed and discarded dead letters."""

import json

import pytest

from masscomm.operations.dead_letter_marks import Mark, MarkKind, decode

ENTRY = {"status": "replayed", "at": "2026-11-21T12:00:00+00:00", "by": "ada"}


@pytest.mark.parametrize("topic_id", [None, "an-id"])
def test_a_mark_is_decoded_as_it_was_encoded(topic_id: str | None) -> None:
    mark = Mark(kind=MarkKind.REPLAYED, history=(ENTRY,), topic_id=topic_id)
    assert decode(mark.encode()) == mark


@pytest.mark.kills(guard="dead_letters.marked_topic")
def test_a_mark_concerns_the_topic_with_its_id() -> None:
    mark = Mark(kind=MarkKind.REPLAYED, history=(ENTRY,), topic_id="first")
    assert [mark.is_of(topic_id) for topic_id in ("first", "second", None)] == [True, False, True]


def test_a_mark_without_a_topic_id_concerns_every_topic() -> None:
    mark = decode(json.dumps({"status": "discarded", "history": [ENTRY]}).encode())
    assert mark.is_of("any")
