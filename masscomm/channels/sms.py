"""Writes an SMS: its sender for club and country, its text with the way to opt out, and its segments."""

from masscomm.domain.call_results import WrittenSms
from masscomm.domain.categories import category
from masscomm.domain.phone_numbers import country_of_subscriber
from masscomm.domain.provider_errors import CountryNotAllowed, InvalidAddress, Rejected
from masscomm.domain.sms_segments import MAX_SEGMENTS, segments
from masscomm.domain.sms_settings import SmsOrigin, sms_table


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
    country = country_of_subscriber(number)
    if country is None:  # guard: sms.invalid_number
        raise InvalidAddress
    table = sms_table()
    club = table.club(club_id)
    origin = club.origin(country)
    # guard: sms.allowed_countries
    if origin is None or country not in club.countries or country not in table.prices:
        raise CountryNotAllowed(country)
    mandatory = category(category_name, club_id).mandatory
    if not text.strip():
        raise Rejected("the text is empty")
    written = _written(country, origin, text, mandatory=mandatory)
    if written.segments > MAX_SEGMENTS:  # guard: sms.segments
        raise Rejected(f"{written.segments} segments, more than {MAX_SEGMENTS}", too_large=True)
    return written


def sms_by_country(club_id: int, category_name: str, text: str) -> list[WrittenSms]:
    """Return the SMS for a text to each country of a club, also one of more than MAX_SEGMENTS segments."""
    club, mandatory = sms_table().club(club_id), category(category_name, club_id).mandatory
    origins = {country: club.origin(country) for country in sorted(club.countries)}
    return [_written(country, origin, text, mandatory=mandatory) for country, origin in origins.items() if origin]


def _written(country: str, origin: SmsOrigin, text: str, *, mandatory: bool) -> WrittenSms:
    # A recipient who cannot answer STOP finds another way in the text.
    if not origin.two_way and not mandatory:  # guard: sms.way_out
        text = f"{text.rstrip()}\n{origin.way_out}"
    count = segments(text)
    return WrittenSms(country, origin, text, count, mandatory, count * sms_table().prices[country])
