import pytest

from masscomm.domain.phone_numbers import country_of_subscriber, e164


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("0151 23456789", "DE"),
        ("(0151) 2345-6789", "DE"),
        ("\u202a+49 151 23456789\u202c", None),
        ("0049 151 23456789", "AT"),
        ("tel:+49-151-23456789", None),
    ],
)
def test_number_of_a_person_has_one_form(text: str, region: str | None) -> None:
    assert e164(text, region) == "+4915123456789"


@pytest.mark.kills(guard="phone_numbers.subscriber")
@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("0900 1234567", "DE"),  # premium rate
        ("0180 5123456", "DE"),  # shared cost
        ("+44 7012 345678", None),  # a personal number
        ("+49 30 1234567 ext. 5", None),
    ],
)
def test_number_with_the_owners_price_is_refused(text: str, region: str | None) -> None:
    assert e164(text, region) is None


@pytest.mark.parametrize(
    ("text", "region"),
    [("", "DE"), ("ada@example.com", "DE"), ("12", "DE"), ("0151 23456789", None), ("0" * 300, "DE"), ("+", "DE")],
)
def test_text_that_is_no_phone_number_is_refused(text: str, region: str | None) -> None:
    assert e164(text, region) is None


def test_country_follows_from_the_number() -> None:
    assert country_of_subscriber("+4915123456789") == "DE"
    assert country_of_subscriber("+436641234567") == "AT"
    assert country_of_subscriber("+12024561111") == "US"
    assert country_of_subscriber("+16135550100") == "CA"
