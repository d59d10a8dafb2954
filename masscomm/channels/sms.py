"""Writes an SMS: its sender for club and country, its text with the way to opt out, and its segments."""

from typing import NamedTuple

from masscomm.domain.categories import category
from masscomm.domain.phone_numbers import country_of, e164
from masscomm.domain.provider_errors import CountryNotAllowed, InvalidAddress, Rejected
from masscomm.domain.sms_segments import MAX_SEGMENTS, segments
from masscomm.domain.sms_settings import SmsOrigin, sms_table


class WrittenSms(NamedTuple):
    """An SMS to one country."""

    country: str
    origin: SmsOrigin
    text: str
    segments: int
    is_transactional: bool
    # What it costs, in micro-dollars.
    micro_dollars: int


def sms_of(club_id: int, category_name: str, number: str, text: str) -> WrittenSms:
    """Return the SMS for a text.

    Args:
        club_id: The club that sends it.
        category_name: Its category. Recipients cannot opt out of a mandatory one.
        number: The recipient's number in the form of E.164; any other text is an invalid address.
        text: The text.

    Raises:
        InvalidAddress: The address is not a phone number.
        CountryNotAllowed: The club sends nothing to the country.
        Rejected: The text is empty, or has more than MAX_SEGMENTS segments.
    """
    if e164(number, None) != number:  # guard: sms.invalid_number
        raise InvalidAddress
    table = sms_table()
    club, country = table.club(club_id), country_of(number)
    origin = None if country is None else club.origin(country)
    # guard: sms.allowed_countries
    if country is None or origin is None or country not in club.countries or country not in table.prices:
        raise CountryNotAllowed
    mandatory = category(category_name, club_id).mandatory
    if not text.strip():
        raise Rejected("the text is empty")
    # A recipient who cannot answer STOP finds another way in the text.
    if not origin.two_way and not mandatory:  # guard: sms.way_out
        text = f"{text.rstrip()}\n{origin.way_out}"
    count = segments(text)
    if count > MAX_SEGMENTS:  # guard: sms.segments
        raise Rejected(f"{count} segments, more than {MAX_SEGMENTS}", too_large=True)
    return WrittenSms(country, origin, text, count, mandatory, count * table.prices[country])
