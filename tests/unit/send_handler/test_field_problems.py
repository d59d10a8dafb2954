"""The texts of invalid fields: pydantic's words, with our codes and values."""

import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from functions.send_handler.field_problems import OF_PYDANTIC, text_of_details
from functions.send_handler.preview_messages import parse_preview
from functions.send_handler.send_request import parse_request
from masscomm.clock import FixedClock
from masscomm.http.problem import FieldErrorBody, Problem
from masscomm.texts import Text

SEND = {"type": "news", "club_id": 1, "to_users": [42]}
PREVIEW = {"type": "news", "club_id": 1}


def _errors(fields: dict[str, Any], base: dict[str, Any]) -> list[FieldErrorBody]:
    document = {name: each for name, each in {**base, **fields}.items() if each is not ...}
    with pytest.raises(Problem) as refused:
        parse_request(document, FixedClock()) if base is SEND else parse_preview(document)
    return refused.value.body()["errors"]


WRONG: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("field_required", {"club_id": ...}, SEND),
    ("field_required", {"to_users": ...}, SEND),
    ("field_extra", {"colour": "red"}, SEND),
    ("type_text", {"reference": 1}, SEND),
    ("type_integer", {"club_id": "1"}, SEND),
    ("type_boolean", {"user": {"attributes": {"a": []}}}, PREVIEW),
    ("type_list", {"to_users": 42}, SEND),
    ("type_object", {"data": []}, SEND),
    ("type_choice", {"priority": "low"}, SEND),
    ("text_too_short", {"reference": ""}, SEND),
    ("text_too_long", {"reference": "r" * 1_000}, SEND),
    ("text_pattern", {"send_id": "mine"}, SEND),
    ("list_too_short", {"to_users": []}, SEND),
    ("list_too_long", {"channels": ["push"] * 9}, SEND),
    ("number_too_small", {"club_id": 0}, SEND),
    ("number_too_large", {"club_id": 2**63}, SEND),
    ("number_not_below", {"part_index": 10**9}, SEND),
    ("time_without_zone", {"send_at": "2026-11-24T08:00:00"}, SEND),
    ("time_unreadable", {"send_at": "2026-11-24T99:00:00Z"}, SEND),
    ("time_not_written", {"send_at": 1}, SEND),
    ("template_of_optional", {"type": "security_alert", "template": "newsletter"}, SEND),
    ("time_of_other_unit", {"expires_at": "1970-01-21T08:00:00Z"}, SEND),
    ("time_of_other_unit", {"send_at": "1970-01-21T08:00:00Z"}, SEND),
    ("local_time_not_written", {"send_at_local": "2026-02-31T09:00"}, SEND),
    ("bytes_too_many", {"data": {"a": "b" * 1_000_000}}, SEND),
    ("audience_and_users", {"audience": {"all_users": True}}, SEND),
    ("type_model", {"user": []}, PREVIEW),
    ("user_twice", {"user": {}, "user_id": 42}, PREVIEW),
    ("type_number", {"user": {"attributes": {"a": []}}}, PREVIEW),
]


@pytest.mark.kills(guard="sends.template_of_an_optional_category")
@pytest.mark.parametrize(("code", "fields", "base"), WRONG, ids=[code for code, _, _ in WRONG])
def test_wrong_field_has_the_code_of_its_text(code: str, fields: dict[str, Any], base: dict[str, Any]) -> None:
    found = [error for error in _errors(fields, base) if error["code"] == code]
    assert found
    text = Text[code.upper()]
    assert sorted(found[0]["parameters"]) == sorted(text.parameters)
    # pydantic knows singular and plural, and names the kind of a collection.
    plural = re.sub(r"(item|character)\b", r"\1s", found[0]["message"]).replace("Dictionary", "List")
    assert plural == text.value.format_map(found[0]["parameters"])


def test_each_text_of_pydantic_is_caused() -> None:
    assert {text.code for text in OF_PYDANTIC.values()} <= {code for code, _, _ in WRONG}


def test_error_of_a_later_pydantic_is_in_its_own_words() -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(bytes).validate_python(1)
    text = text_of_details(refused.value.errors()[0])
    assert (text.code, text) == ("field_unusable", "Input should be a valid bytes")
