import re
from datetime import date
from typing import Any

import pytest

from masscomm.domain.sms_settings import SmsError, number_of, read_sms, sms_table
from tests.support.sms import LIMITS, SENDER, SETTINGS, sms_settings

PRICES = {"as_of": date(2026, 11, 1), "usd_a_segment": {"DE": 0.05}}


def test_shipped_file_sends_nothing() -> None:
    table = sms_table()
    assert table.club(7).countries == frozenset()
    assert table.prices == {}


def test_tenant_replaces_single_keys_of_the_default() -> None:
    table = read_sms(
        {
            "default": {"region": "DE", "senders": {"DE": SENDER}, **LIMITS},
            "tenants": {7: {"countries": []}},
            "prices": PRICES,
        }
    )
    assert table.club(1).countries == {"DE"}
    assert table.club(7).countries == frozenset()
    assert table.club(7).senders == table.club(1).senders
    assert table.prices == {"DE": 50_000}


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ([], "the file must be a mapping"),
        ({"tenant": {}}, "has tenant"),
        ({"default": {"region": "Germany"}}, "default.region"),
        ({"default": {"region": False}}, "default.region"),
        ({"default": {"countries": "DE"}}, "default.countries"),
        ({"default": {"countries": ["DE"], **LIMITS}, "prices": PRICES}, "default.senders has none for DE"),
        ({"default": {"region": "AT", "senders": {"AT": SENDER}, **LIMITS}, "prices": PRICES}, "lacks AT"),
        ({"tenants": {"7": {}}}, "tenants.7"),
        ({"tenants": {7: {"sender": {}}}}, "tenants.7 has sender"),
        ({"default": {"senders": {"XX": SENDER}}}, "default.senders"),
        ({"default": {"senders": {"DE": SENDER | {"identity": 4915}}}}, "default.senders.DE.identity"),
        ({"default": {"senders": {"DE": SENDER | {"two_way": "yes"}}}}, "default.senders.DE.two_way"),
        ({"default": {"senders": {"DE": SENDER | {"segments_per_s": 0}}}}, "default.senders.DE.segments_per_s"),
        ({"default": {"senders": {"DE": SENDER | {"way_out": "x" * 101}}}}, "default.senders.DE.way_out"),
        ({"prices": {"usd_a_segment": {"DE": 1}}}, "prices.as_of"),
        ({"prices": PRICES | {"usd_a_segment": {"DE": float("nan")}}}, "prices.usd_a_segment.DE"),
    ],
)
def test_wrong_file_is_refused_with_the_name_of_its_key(document: Any, key: str) -> None:
    with pytest.raises(SmsError, match=key):
        read_sms(document)


@pytest.mark.kills(guard="sms_settings.daily_limit")
@pytest.mark.parametrize(
    ("limits", "key"),
    [
        ({}, "default.daily_usd"),
        ({"daily_usd": 0, "critical_reserve_usd": 0}, "default.daily_usd"),
        ({"daily_usd": 10}, "default.critical_reserve_usd"),
        ({"daily_usd": 10, "critical_reserve_usd": 11}, "more than daily_usd"),
        ({"daily_usd": 10, "critical_reserve_usd": False}, "default.critical_reserve_usd"),
    ],
)
def test_tenant_that_sends_needs_a_daily_limit(limits: dict[str, Any], key: str) -> None:
    with pytest.raises(SmsError, match=key):
        read_sms({"default": {"region": "DE", "senders": {"DE": SENDER}, **limits}, "prices": PRICES})


def test_limits_are_read_in_micro_dollars() -> None:
    club = read_sms({"default": {"region": "DE", "senders": {"DE": SENDER}, **LIMITS}, "prices": PRICES}).club(7)
    assert (club.daily, club.critical_reserve) == (10_000_000, 2_000_000)


@pytest.mark.kills(guard="sms_settings.way_out")
def test_sender_without_answers_needs_another_way_out() -> None:
    senders = {"DE": {"identity": "Club", "two_way": False, "segments_per_s": 10}}
    with pytest.raises(SmsError, match=r"senders\.DE\.way_out is required"):
        read_sms({"default": {"senders": senders}})


def test_national_number_follows_the_region_of_its_club() -> None:
    with sms_settings(SETTINGS):
        assert number_of(7, "0151 23456789") == "+4915123456789"
        assert number_of(8, "0151 23456789") == "0151 23456789"


@pytest.mark.kills(guard="sms_settings.numbers")
@pytest.mark.parametrize("numbers", [None, [], ["call me"], "+4915799912345", [4915799912345]])
def test_two_way_sender_without_numbers_is_refused(numbers: object) -> None:
    sender = {"identity": "pool-1", "two_way": True, "segments_per_s": 10, "numbers": numbers}
    with pytest.raises(SmsError, match=re.escape("default.senders.DE.numbers")):
        read_sms({"default": {"senders": {"DE": sender}}})


def test_numbers_of_a_one_way_sender_are_refused() -> None:
    sender = {"identity": "Club", "two_way": False, "segments_per_s": 1, "way_out": "x", "numbers": ["+491579991234"]}
    with pytest.raises(SmsError, match="two_way: true"):
        read_sms({"default": {"senders": {"DE": sender}}})


@pytest.mark.parametrize(
    ("sender", "number"),
    [
        ({"identity": "+4915799912345"}, "+4915799912345"),
        ({"identity": "12345"}, "12345"),
        ({"identity": "pool-1", "numbers": ["+4915799912345", "+4915799912346"]}, "4915799912346"),
    ],
)
def test_answers_name_a_number_of_the_sender(sender: dict[str, object], number: str) -> None:
    table = read_sms({"tenants": {7: {"senders": {"DE": {"two_way": True, "segments_per_s": 1, **sender}}}}})
    assert table.club(7).is_answered_at(number)
    assert not table.club(7).is_answered_at("+4915799912347")
    assert not table.club(8).is_answered_at(number)
