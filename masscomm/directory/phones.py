"""Finds the users of a phone number, which people write in many forms."""

from itertools import islice

from masscomm.directory.port import Directory
from masscomm.domain.phone_numbers import phone_ends
from masscomm.domain.sms_settings import number_of
from masscomm.domain.users import User

# The users of one phone number that are returned at most.
MOST_OF_ONE_PHONE = 100


def users_of_phone(directory: Directory, number: str) -> list[User]:
    """Return the first users whose phone is a number in the form of E.164. Raises Retry."""
    users = directory.users_by_phone_ends(phone_ends(number))
    found = (user for user in users if user.phone and number_of(user.club_id, user.phone) == number)
    return list(islice(found, MOST_OF_ONE_PHONE))
