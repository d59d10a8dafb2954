"""An address is erased in every spelling that JSON has for it."""

import json
import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.erasure.addresses import without_addresses
from ops.erasure.person import ERASED_ADDRESS, Person

ADDRESSES = st.sampled_from(
    ["ada@example.org", "müller@bücher.example", "ǖệ@\uff45xample.org", "😀ß@example.org", "한@例え.jp"]
)


def person(address: str) -> Person:
    found = Person(user_id=7, club_id=3)
    found.learn_address(address)
    return found


@pytest.mark.guarantee("erasure.address_in_every_spelling")
@pytest.mark.kills(guard="erasure.spelled_address")
@given(
    ADDRESSES,
    st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
    st.sampled_from([str.lower, str.upper, str]),
    st.lists(st.booleans(), min_size=1, max_size=4),
    st.sampled_from(["", "to: ", "İ <", '"', "\n"]),
)
def test_address_is_found_in_nested_json(
    address: str, form: Literal["NFC", "NFD", "NFKC", "NFKD"], case: type[str], escaped: list[bool], before: str
) -> None:
    spelled = unicodedata.normalize(form, case(address))
    depth: object = {"addresses": [before + spelled, "bob@b.example"], spelled: 1}
    for is_escaped in escaped:
        depth = {"Message": json.dumps(depth, ensure_ascii=is_escaped)}
    text = without_addresses(json.dumps(depth), person(address).addresses, ERASED_ADDRESS)
    found = json.loads(text)
    for _ in escaped:
        found = json.loads(found["Message"])
    assert found == {"addresses": [before + ERASED_ADDRESS, "bob@b.example"], ERASED_ADDRESS: 1}


def test_single_escaped_characters_are_found() -> None:
    text = r'{"to": "\u0061da\u0040example.org", "other": "bob@b.example"}'
    assert json.loads(without_addresses(text, {"ada@example.org"}, "x")) == {"to": "x", "other": "bob@b.example"}


@pytest.mark.kills(guard="erasure.normal_forms")
def test_person_has_each_normal_form_of_an_address() -> None:
    """Suppressions are found by a digest of the address."""
    forms = {unicodedata.normalize(form, "müller@b.example") for form in ("NFC", "NFD")}
    assert len(forms) == 2
    assert forms <= person("MÜLLER@b.example").addresses
