"""Compares the phone numbers of users, which people write in many forms, with one number."""

from collections.abc import Iterable
from itertools import islice

from masscomm.directory.port import MOST_OF_ONE_PHONE
from masscomm.domain.sms_settings import number_of
from masscomm.domain.users import User


def users_of_phone(users: Iterable[User], number: str) -> list[User]:
    """Return the first users whose phone is a number in the form of E.164."""
    found = (user for user in users if user.phone and number_of(user.club_id, user.phone) == number)
    return list(islice(found, MOST_OF_ONE_PHONE))
