"""One normaliser of addresses serves their every use."""

import pytest

from masscomm.channels.email import email_message, mail_domain_in_ascii
from masscomm.domain.addresses import trimmed_address
from masscomm.domain.channels import CHANNELS
from masscomm.domain.ids import address_id
from masscomm.domain.suppressions import id_of
from masscomm.domain.users import User
from ops.erasure.person import Person

ADDRESS = "ann@mail.example"
INVISIBLE = {
    "byte order mark": "\ufeff",
    "zero width space": "\u200b",
    "zero width joiner": "\u200d",
    "word joiner": "\u2060",
    "soft hyphen": "\u00ad",
    "right-to-left embedding": "\u202b",
    "isolate": "\u2068",
    "no-break space": "\u00a0",
    "narrow no-break space": "\u202f",
    "ideographic space": "\u3000",
    "line separator": "\u2028",
    "null": "\0",
    "escape": "\x1b",
    "delete": "\x7f",
    "next line": "\x85",
    "grapheme joiner": "\u034f",
    "Hangul filler": "\u3164",
    "variation selector": "\ufe0f",
    "variation selector of ideographs": "\U000e0100",
    "Mongolian variation selector": "\u180b",
    "Khmer inherent vowel": "\u17b4",
    "tag": "\U000e0041",
    "unassigned ignorable": "\ufff0",
    "several": " \u200e\u200b\t",
}


@pytest.mark.parametrize("invisible", INVISIBLE.values(), ids=INVISIBLE.keys())
@pytest.mark.kills(guard="addresses.invisible_characters")
def test_invisible_characters_do_not_change_an_address(invisible: str) -> None:
    spelt = f"{invisible}{ADDRESS}{invisible}"
    user = User(user_id=1, club_id=7, email=spelt)
    message = email_message(
        sender="a@b.example", recipient=spelt, subject="s", text="t", html=None, notification_id="n"
    )

    assert CHANNELS["email"].address_of(user) == ADDRESS
    assert mail_domain_in_ascii(spelt) == ADDRESS
    assert f"To: {ADDRESS}\r\n".encode() in message
    assert address_id(spelt) == address_id(ADDRESS)
    assert id_of(7, spelt) == id_of(7, ADDRESS)
    person = Person(user_id=1, club_id=7)
    person.learn_address(spelt)
    assert person.addresses == {ADDRESS}


@pytest.mark.parametrize("invisible", INVISIBLE.values(), ids=INVISIBLE.keys())
def test_invisible_characters_alone_are_not_an_address(invisible: str) -> None:
    assert trimmed_address(invisible) == ""


@pytest.mark.parametrize(
    "address", ["é@mail.example", "a@\u0646\u0627\u0645\u0647\u200c\u0627\u06cc.example", "👩\u200d💻@mail.example"]
)
def test_visible_address_is_unchanged(address: str) -> None:
    assert trimmed_address(address) == address
