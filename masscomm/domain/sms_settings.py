"""How SMS are sent for each club (tenant): schemas/sms.yaml, or the file that MASSCOMM_SMS names.

A country is served if the club allows it, has a sender for it, and its price is known. An SMS to any other country is
refused, so that an empty file sends nothing.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from masscomm.domain.phone_numbers import e164, is_region
from masscomm.errors import Stop
from masscomm.safe_yaml import read_yaml
from schemas import absolute

# The environment variable with the path of a file that replaces schemas/sms.yaml.
SMS_VARIABLE = "MASSCOMM_SMS"
# The key of the sender for the countries without their own.
DEFAULT = "default"
# Micro-dollars of a US dollar: prices and limits are whole numbers of them.
MICRO = 1_000_000
# As the API requires: a phone number, a sender id, a pool, or the ARN of one.
_IDENTITY = re.compile(r"[A-Za-z0-9_:/+-]{1,256}")
_LONGEST_WAY_OUT = 100
# A phone number or a short code.
_NUMBER = re.compile(r"\+?[0-9]{3,15}", re.ASCII)


class SmsError(Stop):
    """schemas/sms.yaml is not valid. The message names the key."""


@dataclass(frozen=True, kw_only=True)
class SmsOrigin:
    """A sender of SMS."""

    # The phone number, the sender id or the pool, or its ARN.
    identity: str
    # Whether recipients can answer it.
    two_way: bool
    # The phone numbers to which they answer, as digits.
    numbers: frozenset[str] = frozenset()
    # The segments that it sends in a second.
    segments_per_s: float
    # The text at the end of SMS that tells how to opt out, if recipients cannot answer STOP.
    way_out: str = ""


@dataclass(frozen=True, kw_only=True)
class ClubSms:
    """How SMS are sent for a club."""

    # The country of phone numbers without a country code.
    region: str | None = None
    # The countries to which the club sends.
    countries: frozenset[str] = frozenset()
    # Country → the sender.
    senders: Mapping[str, SmsOrigin] = MappingProxyType({})
    # What its SMS may cost in a day (UTC), in micro-dollars.
    daily: int = 0
    # The part of it that only critical SMS may use.
    critical_reserve: int = 0

    def origin(self, country: str) -> SmsOrigin | None:
        """Return the sender for a country; None if the club has none."""
        return self.senders.get(country) or self.senders.get(DEFAULT)

    def is_answered_at(self, number: str) -> bool:
        """Return whether recipients of the club's SMS answer to a number."""
        return any(number.removeprefix("+") in each.numbers for each in self.senders.values())


@dataclass(frozen=True, kw_only=True, eq=False)
class SmsTable:
    """The contents of the file."""

    default: ClubSms = ClubSms()
    of_clubs: Mapping[int, ClubSms] = MappingProxyType({})
    # Country → micro-dollars of a segment.
    prices: Mapping[str, int] = MappingProxyType({})
    # The day of the prices.
    prices_as_of: date | None = None

    def club(self, club_id: int) -> ClubSms:
        """Return how SMS are sent for a club."""
        return self.of_clubs.get(club_id, self.default)

    def origins(self) -> list[SmsOrigin]:
        """Return the senders of all clubs."""
        return [each for club in (self.default, *self.of_clubs.values()) for each in club.senders.values()]


@cache
def sms_table() -> SmsTable:
    """Return the contents of the file. Raises SmsError if it is not valid."""
    path = Path(os.environ.get(SMS_VARIABLE) or absolute("sms.yaml")).expanduser()
    return read_sms(read_yaml(path, "sms.yaml", SmsError))


def number_of(club_id: int, address: str) -> str:
    """Return a phone number of a club's user in the form of E.164; the address itself if it is not a phone number."""
    return e164(address, sms_table().club(club_id).region) or address


def read_sms(document: Any) -> SmsTable:
    """Return the contents of a parsed sms.yaml. Raises SmsError."""
    entries = _mapping(document, "", {DEFAULT, "tenants", "prices"})
    default = _mapping(entries.get(DEFAULT), DEFAULT, _CLUB)
    clubs: dict[int, ClubSms] = {}
    for club_id, own in _mapping(entries.get("tenants"), "tenants").items():
        where = f"tenants.{club_id}"
        if isinstance(club_id, bool) or not isinstance(club_id, int):
            raise SmsError(f"sms.yaml: {where}: a club's id is a whole number")
        clubs[club_id] = _club({**default, **_mapping(own, where, _CLUB)}, where)
    as_of, prices = _prices(entries.get("prices"))
    found = SmsTable(
        default=_club(default, DEFAULT), of_clubs=MappingProxyType(clubs), prices=prices, prices_as_of=as_of
    )
    for where, club in ((DEFAULT, found.default), *((f"tenants.{club_id}", each) for club_id, each in clubs.items())):
        _check_served(found, club, where)
    return found


def _check_served(table: SmsTable, club: ClubSms, where: str) -> None:
    """Check that a club can send to each of its countries: otherwise all its SMS to one would fail."""
    for country in sorted(club.countries):
        if club.origin(country) is None:
            raise SmsError(f"sms.yaml: {where}.senders has none for {country}, which {where}.countries allows")
        if country not in table.prices:
            raise SmsError(f"sms.yaml: prices.usd_a_segment lacks {country}, which {where}.countries allows")


_CLUB = {"region", "countries", "senders", "daily_usd", "critical_reserve_usd"}


def _club(entry: Mapping[str, Any], where: str) -> ClubSms:
    region = None if entry.get("region") is None else _country(entry["region"], f"{where}.region")
    countries = entry.get("countries", [] if region is None else [region])
    if not isinstance(countries, list):
        raise SmsError(f"sms.yaml: {where}.countries must be a list of countries")
    senders = _mapping(entry.get("senders"), f"{where}.senders")
    daily, reserve = entry.get("daily_usd"), entry.get("critical_reserve_usd")
    if countries:  # guard: sms_settings.daily_limit
        _check_limits(daily, reserve, where)
    return ClubSms(
        daily=0 if daily is None else micro_dollars(daily, f"{where}.daily_usd"),
        critical_reserve=0 if not reserve else micro_dollars(reserve, f"{where}.critical_reserve_usd"),
        region=region,
        countries=frozenset(_country(each, f"{where}.countries") for each in countries),
        senders=MappingProxyType(dict(_senders(senders, f"{where}.senders"))),
    )


def _check_limits(daily: Any, reserve: Any, where: str) -> None:
    """Check that a club that sends SMS has a limit. Without one, an error or a fraud could cost any amount."""
    _number(daily, f"{where}.daily_usd")
    if reserve != 0 or isinstance(reserve, bool):
        _number(reserve, f"{where}.critical_reserve_usd")
    if reserve > daily:
        raise SmsError(f"sms.yaml: {where}.critical_reserve_usd is more than daily_usd")


def _senders(entries: Mapping[Any, Any], where: str) -> Iterator[tuple[str, SmsOrigin]]:
    for key, entry in entries.items():
        country = key if key == DEFAULT else _country(key, where)
        yield country, _origin(entry, f"{where}.{country}")


def _origin(entry: Any, where: str) -> SmsOrigin:
    given = _mapping(entry, where, {"identity", "two_way", "numbers", "segments_per_s", "way_out"})
    identity, two_way, way_out = given.get("identity"), given.get("two_way"), given.get("way_out", "")
    if not isinstance(identity, str) or not _IDENTITY.fullmatch(identity):
        raise SmsError(f"sms.yaml: {where}.identity must be a phone number, a sender id or a pool, as text")
    if not isinstance(two_way, bool):
        raise SmsError(f"sms.yaml: {where}.two_way must be true or false")
    if not isinstance(way_out, str) or len(way_out) > _LONGEST_WAY_OUT:
        raise SmsError(f"sms.yaml: {where}.way_out must be a text of at most {_LONGEST_WAY_OUT} characters")
    # A person who cannot answer STOP could otherwise not opt out.
    if not two_way and not way_out.strip():  # guard: sms_settings.way_out
        raise SmsError(f"sms.yaml: {where}.way_out is required, because recipients cannot answer this sender")
    return SmsOrigin(
        identity=identity,
        two_way=two_way,
        numbers=_numbers(given.get("numbers"), identity, two_way=two_way, where=where),
        segments_per_s=_number(given.get("segments_per_s"), f"{where}.segments_per_s"),
        way_out=way_out.strip(),
    )


def _numbers(given: Any, identity: str, *, two_way: bool, where: str) -> frozenset[str]:
    """Return the numbers to which recipients answer. An answer names the number, and not its pool."""
    if given is None and _NUMBER.fullmatch(identity):
        given = [identity]
    if not two_way:
        if given not in (None, [identity]):
            raise SmsError(f"sms.yaml: {where}.numbers is for a sender with two_way: true")
        return frozenset()
    # Without them, the STOP of a recipient would belong to no club.
    # guard: sms_settings.numbers
    if not isinstance(given, list) or not given or not all(isinstance(n, str) and _NUMBER.fullmatch(n) for n in given):
        raise SmsError(f"sms.yaml: {where}.numbers must be the phone numbers of a two-way sender, each as text")
    return frozenset(each.removeprefix("+") for each in given)


def _prices(entry: Any) -> tuple[date | None, Mapping[str, int]]:
    given = _mapping(entry, "prices", {"as_of", "usd_a_segment"})
    rows = _mapping(given.get("usd_a_segment"), "prices.usd_a_segment")
    as_of = given.get("as_of")
    if rows and type(as_of) is not date:
        raise SmsError("sms.yaml: prices.as_of must be the day of the prices, such as 2026-11-01")
    where = "prices.usd_a_segment"
    prices = {_country(key, where): micro_dollars(value, f"{where}.{key}") for key, value in rows.items()}
    return as_of, MappingProxyType(prices)


def micro_dollars(value: Any, where: str) -> int:
    """Return an amount of US dollars above 0 in micro-dollars, rounded up. Raises SmsError."""
    return -int(-_number(value, where) * MICRO // 1)


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MICRO:
        raise SmsError(f"sms.yaml: {where} must be a number above 0")
    return float(value)


def _country(code: Any, where: str) -> str:
    # YAML reads an unquoted NO as false.
    if not isinstance(code, str) or not is_region(code):
        raise SmsError(f"sms.yaml: {where}: {code!r} is not a country (ISO 3166, two capital letters, in quotes)")
    return code


def _mapping(entry: Any, where: str, allowed: set[str] | None = None) -> Mapping[Any, Any]:
    if entry is None:
        return {}
    if not isinstance(entry, dict):
        raise SmsError(f"sms.yaml: {where or 'the file'} must be a mapping")
    if allowed is not None and (unknown := [str(key) for key in entry if key not in allowed]):
        expected = ", ".join(sorted(allowed))
        raise SmsError(f"sms.yaml: {where or 'the file'} has {', '.join(unknown)}; allowed are {expected}")
    return entry
