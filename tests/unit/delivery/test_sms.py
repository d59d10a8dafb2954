"""SMS from the delivery record to the provider: numbers, countries, segments, senders."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from masscomm.domain.lanes import Lane
from masscomm.domain.provider_errors import (
    ApplicationOff,
    CountryNotAllowed,
    Expired,
    OptedOut,
    ProviderError,
    Rejected,
    Transient,
)
from masscomm.domain.records import ContentColumn
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import Suppression
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from tests.support.harness.chain import delivery
from tests.support.harness.delivery import Delivery
from tests.support.sms import CLUB, SENDER, SETTINGS, sms_settings

NUMBER = "+4915123456789"


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    with sms_settings():
        yield


class Texts(Delivery):
    """Delivery of an SMS to user 1, who has this number in the directory."""

    def send(self, address: str = "0151 23456789", text: str = "Hello", **values: Any) -> tuple[str, str | None]:
        """Deliver an SMS; return its status and reason."""
        self.put_user(1, phone=address)
        usual: dict[str, Any] = {
            "channel": "sms",
            "addresses": [address],
            "content": [ContentColumn(field="text", values=[text], index=[])],
        }
        self.deliver(delivery([1], **usual | values))
        [outcome] = self.outcomes()
        return outcome.results[0].status, outcome.results[0].reason


def test_sms_goes_to_the_number_of_the_tenants_region() -> None:
    texts = Texts()
    assert texts.send() == ("sent", None)
    [sms] = texts.sms.sent
    assert (sms.number, sms.identity, sms.text, sms.is_transactional) == (NUMBER, "Club", "Hello", False)
    assert sms.notification_id


@pytest.mark.kills(guard="sms.invalid_number")
@pytest.mark.parametrize("address", ["call me", "0900 1234567", "ada@example.com"])
def test_address_that_is_no_number_is_invalid(address: str) -> None:
    texts = Texts()
    assert texts.send(address) == ("failed", Reason.INVALID_ADDRESS)
    assert not texts.sms.calls


@pytest.mark.kills(guard="sms.allowed_countries")
def test_country_that_is_not_listed_is_refused() -> None:
    texts = Texts()
    assert texts.send("+41 79 123 45 67") == ("failed", Reason.COUNTRY_NOT_ALLOWED)
    assert not texts.sms.calls


def test_tenant_without_settings_sends_no_sms() -> None:
    texts = Texts()
    with sms_settings({"prices": SETTINGS["prices"]}):
        assert texts.send(NUMBER) == ("failed", Reason.COUNTRY_NOT_ALLOWED)


@pytest.mark.kills(guard="sms.segments")
def test_sms_of_more_than_six_segments_is_too_large() -> None:
    assert Texts().send(text="a" * 918) == ("sent", None)
    texts = Texts()
    assert texts.send(text="a" * 919) == ("failed", Reason.TOO_LARGE)
    assert not texts.sms.calls


@pytest.mark.kills(guard="sms.way_out")
@pytest.mark.parametrize(("category", "text"), [("news", "Hello\nStop: x.example"), ("security_alert", "Hello")])
def test_sender_without_answers_names_a_way_out(category: str, text: str) -> None:
    one_way = {"identity": "Club", "two_way": False, "segments_per_s": 1, "way_out": "Stop: x.example"}
    club = SETTINGS["tenants"][CLUB] | {"senders": {"AT": SENDER, "DE": one_way}}
    texts = Texts()
    with sms_settings(SETTINGS | {"tenants": {CLUB: club}}):
        assert texts.send(type=category) == ("sent", None)
    [sms] = texts.sms.sent
    assert (sms.text, sms.is_transactional) == (text, category == "security_alert")


@pytest.mark.kills(guard="phone_numbers.one_form")
def test_suppressed_number_is_found_in_any_spelling() -> None:
    texts = Texts()
    texts.directory.suppress(
        Suppression(
            club_id=CLUB,
            address=NUMBER,
            reason=Reason.OPTED_OUT,
            at_ms=0,
            expires_ms=texts.clock.now_ms() + 1000,
        )
    )
    assert texts.send("0151/23456789") == ("suppressed", Reason.ADDRESS_SUPPRESSED)


def test_number_that_opted_out_at_the_provider_is_suppressed() -> None:
    texts = Texts()
    texts.sms.fail = lambda _: OptedOut("Conflict")
    assert texts.send() == ("suppressed", Reason.OPTED_OUT)


def test_unknown_sender_holds_its_messages() -> None:
    texts = Texts()
    texts.sms.fail = lambda _: ApplicationOff("ResourceNotFound")
    assert texts.send() == ("sending", None)
    texts.sms.fail = lambda _: None
    texts.release()
    assert [sms.number for sms in texts.sms.sent] == [NUMBER]


def test_segments_pass_at_the_rate_of_their_sender() -> None:
    """Five SMS of two segments take a second at 10 segments a second."""
    texts = Texts()
    slow = SENDER | {"segments_per_s": 10}
    club = SETTINGS["tenants"][CLUB] | {"senders": {"default": slow}}
    began = texts.clock.monotonic()
    with sms_settings(SETTINGS | {"tenants": {CLUB: club}}):
        texts.deliver(
            delivery(
                range(1, 12),
                channel="sms",
                addresses=[f"+49151234567{number:02}" for number in range(1, 12)],
                content=[ContentColumn(field="text", values=["a" * 200], index=[])],
            )
        )
    assert len(texts.sms.sent) == 11
    assert 1.6 <= texts.clock.monotonic() - began <= 2.4


COST = 50_000  # micro-dollars of a segment to Germany


def daily(usd: float, reserve: float = 0.0) -> AbstractContextManager[None]:
    """Return settings with a limit for the SMS of a day."""
    club = SETTINGS["tenants"][CLUB] | {"daily_usd": usd, "critical_reserve_usd": reserve}
    return sms_settings(SETTINGS | {"tenants": {CLUB: club}})


class Many(Texts):
    """Delivery of an SMS to users 1 to 3, each of whom has a number."""

    def send_all(self, topic: str = topics.DELIVERY, **values: Any) -> list[tuple[int, str, str | None]]:
        """Deliver an SMS; return (user, status, reason)."""
        numbers = [f"+491512345678{user_id}" for user_id in (1, 2, 3)]
        for user_id, number in enumerate(numbers, 1):
            self.put_user(user_id, phone=number)
        text = ContentColumn(field="text", values=["Hello"], index=[])
        record = delivery([1, 2, 3], channel="sms", addresses=numbers, content=[text], **values)
        self.run(self.use_case, self.encoded(record, topic))
        return [
            (user_id, outcome.results[place].status, outcome.results[place].reason)
            for outcome in self.outcomes()
            for user_id, place in zip(outcome.user_ids, outcome.result_index, strict=True)
        ]


def statuses(found: list[tuple[int, str, str | None]]) -> dict[int, tuple[str, str | None]]:
    return {user_id: (status, reason) for user_id, status, reason in found}


LIMITED = ("failed", Reason.SPEND_LIMIT)


@pytest.mark.kills(guard="sms.spending_before_calls")
def test_sms_beyond_the_daily_limit_fail() -> None:
    texts = Many()
    with daily(0.1):
        found = texts.send_all()
    assert statuses(found) == {1: ("sent", None), 2: ("sent", None), 3: LIMITED}
    assert len(texts.sms.calls) == 2
    assert list(texts.spent.used.values()) == [2 * COST]


def test_costs_of_a_group_are_reserved_by_one_request() -> None:
    texts = Many()
    reserved: list[int] = []
    take = texts.spent.take
    texts.spent.take = lambda window, amount: reserved.append(amount) or take(window, amount)  # type: ignore
    with daily(10):
        texts.send_all()
    assert reserved == [3 * COST]


@pytest.mark.kills(guard="sms.critical_reserve")
@pytest.mark.parametrize(("lane", "sent"), [(Lane.BULK, 1), (Lane.CRITICAL, 3)])
def test_reserve_is_for_critical_sms(lane: Lane, sent: int) -> None:
    texts = Many()
    with daily(0.15, reserve=0.1):
        texts.send_all(topics.in_lane(topics.DELIVERY, lane))
    assert len(texts.sms.calls) == sent


def test_limit_is_that_of_the_day_and_the_tenant() -> None:
    texts = Many()
    with daily(0.15):
        texts.send_all()
        texts.clock.advance(86_400)
        texts.send_all(record_id="55555555-5555-5555-8555-555555555555")
    assert len(texts.sms.calls) == 6
    assert {name.partition("#")[0] for name in texts.spent.used} == {f"sms:{CLUB}"}
    assert len(texts.spent.used) == 2


@pytest.mark.kills(guard="sms.spending_unknown")
def test_sms_wait_while_their_costs_are_unknown() -> None:
    texts = Many()
    texts.spent.failing = Retry("throttled")
    with daily(10):
        assert set(statuses(texts.send_all()).values()) == {("sending", None)}
        assert not texts.sms.calls
        assert list(texts.delayed_user_ids().values()) == [[1, 2, 3]]
        texts.spent.failing = None
        assert texts.release() == []
    assert len(texts.sms.calls) == 3


def test_sms_that_are_refused_before_cost_nothing() -> None:
    texts = Texts()
    assert texts.send("+41 79 123 45 67") == ("failed", Reason.COUNTRY_NOT_ALLOWED)
    assert not texts.spent.used


SEND_REFUSED = Transient("ServiceQuotaExceeded")
SERVER_FAULT = Transient("InternalServer")
SERVER_FAULT.may_be_accepted = True


@pytest.mark.parametrize(
    "error", [OptedOut("Conflict"), Rejected("Validation"), CountryNotAllowed("DE"), Expired("expires_at has passed")]
)
def test_cost_of_a_refused_sms_is_given_back_once(error: ProviderError) -> None:
    texts = Many()
    texts.sms.fail = lambda number: error if number.endswith("2") else None
    with daily(10):
        texts.send_all()
        texts.send_all()
    assert len(texts.sms.calls) == 3, "the record was redelivered"
    assert list(texts.spent.used.values()) == [2 * COST]


def test_retried_sms_is_paid_for_once() -> None:
    texts = Many()
    texts.sms.fail = lambda _number: SEND_REFUSED
    with daily(10):
        texts.send_all()
        assert set(texts.spent.used.values()) == {0}
        texts.sms.fail = lambda _number: None
        texts.release()
    assert sum(texts.spent.used.values()) == 3 * COST


@pytest.mark.kills(guard="sms.sent_costs")
@pytest.mark.parametrize("error", [SERVER_FAULT, Transient("cut", answer_lost=True)])
def test_cost_of_an_sms_that_may_be_sent_is_kept(error: Transient) -> None:
    """Also if the provider refuses it at a later attempt of the invocation."""
    texts = Many()
    answers = iter([error])
    texts.sms.fail = lambda _number: next(answers, SEND_REFUSED)
    with daily(10):
        texts.send_all()
    assert sum(texts.spent.used.values()) == COST


def test_redelivered_record_gives_back_its_own_costs() -> None:
    texts = Many()
    texts.sms.fail = lambda _number: OptedOut("Conflict")
    record_all = texts.ledger.record_all
    texts.ledger.record_all = lambda slices: dict.fromkeys(slices, DeadLetter("invalid", "x"))  # type: ignore
    with daily(10):
        texts.send_all()
        texts.ledger.record_all = record_all  # type: ignore
        texts.send_all()
    assert set(texts.spent.used.values()) == {0}


def test_costs_are_given_back_to_their_own_day() -> None:
    texts = Many()

    def refused(_number: str) -> ProviderError:
        texts.clock.advance(86_400)
        return Rejected("Validation")

    texts.sms.fail = refused
    with daily(10):
        texts.send_all()
    assert set(texts.spent.used.values()) == {0}


def test_costs_stay_reserved_while_the_store_is_down() -> None:
    texts = Many()

    def refused(_number: str) -> ProviderError:
        texts.spent.failing = Retry("down")
        return Rejected("Validation")

    texts.sms.fail = refused
    with daily(10):
        assert statuses(texts.send_all())[1] == ("failed", Reason.PROVIDER_REJECTED)
    assert list(texts.spent.used.values()) == [3 * COST]


def test_pushes_reserve_nothing() -> None:
    texts = Texts()
    texts.spent.failing = Retry("down")
    assert texts.deliver(delivery([1])) == []
    assert texts.push.calls
