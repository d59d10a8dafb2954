import pytest

from ops.erasure.person import Person
from tests.support.sms import CLUB, sms_settings


@pytest.mark.kills(guard="erasure.phone_number")
def test_phone_number_is_learned_as_it_is_suppressed() -> None:
    person = Person(user_id=1, club_id=CLUB)
    with sms_settings():
        person.learn_address("0151 23456789")
        person.learn_address("not a number")
        person.learn_address(None)
    assert person.addresses == {"0151 23456789", "+4915123456789"}
