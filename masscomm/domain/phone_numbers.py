"""Phone numbers of recipients, as people write them, in the form of E.164 (a plus sign and digits).

Only numbers of subscribers are accepted: an SMS to a premium-rate or shared-cost number costs what its owner chooses.
`phonenumbers` is imported with the first SMS, because no other message needs it.
"""

from collections.abc import Collection
from typing import Any

from masscomm.domain.addresses import trimmed_address
from masscomm.domain.phone_ends import DIGITS

# The longest text that is read. https://www.itu.int/rec/T-REC-E.164: at most 15 digits, here with any separators.
_LONGEST = 60


def e164(text: str, region: str | None) -> str | None:
    """Return a phone number in the form of E.164; None if the text is not the number of a subscriber.

    Args:
        text: The number, with any separators.
        region: The country (ISO 3166, two letters) of a number without a country code; None: such a number is refused.
    """
    import phonenumbers

    number = _subscriber(text, region)
    return None if number is None else phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def _subscriber(text: str, region: str | None) -> Any:
    """Return the parsed number of a subscriber, or None."""
    import phonenumbers
    from phonenumbers import PhoneNumberType

    text = trimmed_address(text)
    if not text or len(text) > _LONGEST:
        return None
    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        return None
    # guard: phone_numbers.subscriber
    if number.extension or phonenumbers.number_type(number) not in (
        PhoneNumberType.MOBILE,
        PhoneNumberType.FIXED_LINE,
        PhoneNumberType.FIXED_LINE_OR_MOBILE,
    ):
        return None
    return number


def country_of_subscriber(number: str) -> str | None:
    """Return the country (ISO 3166, two letters) of a number in the form of E.164, or "" if it belongs to none; None if
    the text is not the number of a subscriber in this form. It parses the number once: that takes 130 µs.
    """
    import phonenumbers

    parsed = _subscriber(number, None)
    if parsed is None or phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164) != number:
        return None
    return phonenumbers.region_code_for_number(parsed) or ""


def is_region(code: str) -> bool:
    """Return whether there are phone numbers of a country (ISO 3166, two letters)."""
    import phonenumbers

    return code in phonenumbers.SUPPORTED_REGIONS


def phone_ends(number: str) -> Collection[str]:
    """Return each end that a number in the form of E.164 can have (masscomm.domain.phone_ends), with and without its
    country code.
    """
    import phonenumbers

    national = phonenumbers.national_significant_number(phonenumbers.parse(number))
    # A short number differs from its end with a code before it.
    return {each[-DIGITS:] for each in (number.removeprefix("+"), national, f"0{national}")}
