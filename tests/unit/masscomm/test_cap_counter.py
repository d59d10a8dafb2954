"""Counting for frequency caps: places are taken and given back through a store that others change, too."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from masscomm.chain.cap_counter import CapCounter
from masscomm.clock import FixedClock
from masscomm.domain.cap_places import Wish
from masscomm.domain.frequency_caps import Cap
from masscomm.domain.outcomes import CANCELLED, EXPIRED, SENT, RecipientOutcome, outcome
from masscomm.domain.preferences import Decision
from masscomm.domain.records import NotificationOutcome, RecheckRequested
from masscomm.domain.statuses import Reason, Status
from masscomm.errors import Retry
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.frequency_caps.port import Change, FrequencyCaps, PlacesKey, StoredPlaces
from tests.support.categories import put_version
from tests.support.harness.chain import NOW, recheck
from tests.support.servers.dynamodb_table import new_table

CAP = Cap(limit=2, window="24h")
BY_CHANNEL = Cap(limit=1, window="24h", by_channel=True)
GROUP = Cap(limit=3, window="day", group="all")
TWO_CHANNELS = ("push", "email")


def asked(send_id: str, user_ids: Sequence[int] = (1,), category: str = "news") -> RecheckRequested:
    return recheck(user_ids, send_id=send_id, type=category)


def wishes(user_ids: Sequence[int], channels: tuple[str, ...] = ("push",)) -> list[Wish]:
    return [Wish(position, user_id, channels, None) for position, user_id in enumerate(user_ids)]


class Counting:
    """A counter with a store in memory."""

    def __init__(self, store: FrequencyCaps | None = None) -> None:
        self.clock = FixedClock(NOW)
        self.store = store or InMemoryFrequencyCaps()
        self.counter = CapCounter(store=self.store, clock=self.clock)

    def take(
        self,
        send_id: str,
        user_ids: Sequence[int] = (1,),
        *,
        caps: Sequence[Cap] = (CAP,),
        channels: tuple[str, ...] = ("push",),
        category: str = "news",
    ) -> dict[int, list[str]]:
        """Return position → the refused channels."""
        counted = self.counter.take(asked(send_id, user_ids, category), caps, wishes(user_ids, channels), lambda: True)
        assert counted.uncounted == []
        return {position: list(refused) for position, refused in counted.refused.items() if refused}


@pytest.fixture
def counting() -> Counting:
    return Counting()


def test_repetition_finds_its_place(counting: Counting) -> None:
    assert counting.take("a") == counting.take("b") == counting.take("a") == counting.take("b") == {}
    assert counting.take("c") == {0: ["push"]}


def test_place_is_free_after_the_window(counting: Counting) -> None:
    counting.take("a")
    counting.clock.advance(3_600)
    counting.take("b")
    counting.clock.advance(23 * 3_600 - 1)
    assert counting.take("c") == {0: ["push"]}
    counting.clock.advance(1)
    assert counting.take("c") == {}
    assert counting.take("d") == {0: ["push"]}


def test_send_over_all_channels_counts_once(counting: Counting) -> None:
    for send_id in ("a", "b"):
        assert counting.take(send_id, channels=TWO_CHANNELS) == {}
    assert counting.take("c", channels=TWO_CHANNELS) == {0: ["push", "email"]}


def test_cap_by_channel_counts_each_channel(counting: Counting) -> None:
    assert counting.take("a", caps=[BY_CHANNEL]) == {}
    assert counting.take("b", caps=[BY_CHANNEL], channels=TWO_CHANNELS) == {0: ["push"]}
    assert counting.take("c", caps=[BY_CHANNEL], channels=TWO_CHANNELS) == {0: ["push", "email"]}


def test_refused_send_takes_no_place_of_another_cap(counting: Counting) -> None:
    caps = [BY_CHANNEL, GROUP]
    assert counting.take("a", caps=caps) == {}
    assert counting.take("b", caps=caps) == {0: ["push"]}
    # Two places of the group are left.
    assert [counting.take(each, caps=[GROUP], category="offers") for each in ("c", "d", "e")] == [{}, {}, {0: ["push"]}]


def test_categories_of_a_group_count_together(counting: Counting) -> None:
    assert [counting.take(each, caps=[GROUP], category=each) for each in ("a", "b", "c", "d")] == [
        {},
        {},
        {},
        {0: ["push"]},
    ]


def test_spellings_of_a_category_count_together(counting: Counting) -> None:
    assert [counting.take(each, category=each) for each in ("news", "NEWS", " News")] == [{}, {}, {0: ["push"]}]


def test_user_named_twice_takes_one_place(counting: Counting) -> None:
    assert counting.take("a", [1, 1, 2, 1]) == {}
    assert counting.take("b") == {}
    assert counting.take("c") == {0: ["push"]}


def test_other_users_and_tenants_have_places_of_their_own(counting: Counting) -> None:
    counting.take("a"), counting.take("b")
    assert counting.take("c", [1, 2]) == {0: ["push"]}
    other = recheck([1], send_id="c", club_id=8)
    assert counting.counter.take(other, [CAP], wishes([1]), lambda: True).refused == {0: {}}


@pytest.mark.guarantee("frequency_caps.exact")
@pytest.mark.parametrize("store", ["memory", "moto"])
def test_cap_is_exact_under_concurrent_sends(store: str, request: pytest.FixtureRequest) -> None:
    """Twelve sends to the same users at the same time: each user gets as many as the cap allows."""
    users, limit = list(range(20)), 3
    if store == "moto":
        client: Any = request.getfixturevalue("moto_dynamodb")
        counting = Counting(DynamoDbFrequencyCaps(table=new_table(client, "frequency_caps"), client=client))
    else:
        counting = Counting()
    cap = Cap(limit=limit, window="24h")

    def send(number: int) -> list[int]:
        left, allowed = users, []
        while left:  # Uncounted recipients continue in a record of their own.
            counted = counting.counter.take(asked(f"s{number}", left), [cap], wishes(left), lambda: True)
            allowed += [
                user for place, user in enumerate(left) if place not in counted.uncounted and not counted.refused[place]
            ]
            left = [left[place] for place in counted.uncounted]
        return allowed

    with ThreadPoolExecutor(6) as pool:
        got = Counter(user for allowed in pool.map(send, range(12)) for user in allowed)
    assert got == dict.fromkeys(users, limit)


class Contended(InMemoryFrequencyCaps):
    """A store that another writer changes before each write."""

    def write(self, changes: Sequence[Sequence[Change]], now_ms: int) -> list[bool]:
        for [change] in changes:
            stored = self.read([change.key]).get(change.key, StoredPlaces())
            assert super().write([[Change(change.key, stored, {**stored.taken}, 1)]], now_ms) == [True]
        return super().write(changes, now_ms)


def test_recipient_with_contended_places_is_uncounted() -> None:
    counter = CapCounter(store=Contended(), clock=FixedClock(NOW))
    counted = counter.take(asked("a"), [CAP], wishes([1]), lambda: True)
    assert counted.uncounted == [0]


@pytest.mark.kills(guard="frequency_caps.out_of_time")
def test_recipients_without_time_are_uncounted(counting: Counting) -> None:
    users = list(range(1_200))
    counted = counting.counter.take(asked("a", users), [CAP], wishes(users), iter([True, False, False]).__next__)
    assert (len(counted.refused), counted.uncounted) == (500, list(range(500, 1_200)))


def test_forecast_takes_no_place(counting: Counting) -> None:
    counting.take("a")
    for send_id in ("b", "c", "d"):
        assert counting.counter.forecast(asked(send_id), [CAP], wishes([1]), NOW).refused == {0: {}}
    counting.take("b")
    assert counting.counter.forecast(asked("c"), [CAP], wishes([1]), NOW).refused == {0: {"push": CAP}}
    after = NOW + 24 * 3_600_000
    assert counting.counter.forecast(asked("c"), [CAP], wishes([1]), after).refused == {0: {}}


def ended(send_id: str, *decisions: Decision, channel: str = "push", category: str = "news") -> NotificationOutcome:
    """Return the outcomes of users 1, 2, …"""
    users = list(range(1, len(decisions) + 1))
    return outcome(
        asked(send_id, users, category),
        [RecipientOutcome(position, users[position], decision) for position, decision in enumerate(decisions)],
        channel=channel,
        step="delivery",
        start=0,
        end=len(users),
        now_ms=NOW,
        directory=None,
    )


@pytest.fixture
def capped(stored_categories: InMemoryCategories, counting: Counting) -> Counting:
    """A counter, and the category news with CAP."""
    fields = {"channels": ["push"], "caps": [{"limit": 2, "window": "24h"}]}
    put_version(stored_categories, "news", fields, NOW - 3_600_000)
    known_categories().read()
    return counting


@pytest.mark.parametrize(
    ("decision", "is_given_back"),
    [
        (CANCELLED, True),
        (EXPIRED, True),
        (Decision(Status.FAILED, Reason.TEMPLATE_ERROR), True),
        (Decision(Status.SUPPRESSED, Reason.NO_DEVICE), True),
        (Decision(Status.SUPPRESSED, Reason.OPTED_OUT), True),
        (SENT, False),
        (Decision(Status.BOUNCED, Reason.BOUNCED_PERMANENT), False),
        (Decision(Status.HELD, until_ms=NOW), False),
        (Decision(Status.SENDING), False),
        (Decision(Status.SUPPRESSED, Reason.FREQUENCY_CAP), False),
    ],
)
def test_unsent_notification_gives_its_place_back(capped: Counting, decision: Decision, is_given_back: bool) -> None:
    users = [1, 2]
    capped.take("a", users), capped.take("b", users)
    for _ in range(2):  # Outcomes are redelivered.
        capped.counter.give_back(ended("a", decision, SENT))
    assert capped.take("c", users) == ({1: ["push"]} if is_given_back else {0: ["push"], 1: ["push"]})


def test_place_of_a_send_is_kept_until_each_channel_has_ended(capped: Counting) -> None:
    capped.take("a", channels=TWO_CHANNELS), capped.take("b")
    capped.counter.give_back(ended("a", CANCELLED, channel="push"))
    assert capped.take("c") == {0: ["push"]}
    capped.counter.give_back(ended("a", CANCELLED, channel="email"))
    assert capped.take("c") == {}


def test_nothing_is_read_for_a_category_without_caps(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(keys: Iterable[PlacesKey]) -> Mapping[PlacesKey, StoredPlaces]:
        raise AssertionError(list(keys))

    monkeypatch.setattr(counting.store, "read", read)
    counting.counter.give_back(ended("a", CANCELLED))


def test_places_that_always_change_are_given_back_later(capped: Counting) -> None:
    store = Contended()
    counter = CapCounter(store=store, clock=capped.clock)
    InMemoryFrequencyCaps.write(
        store, [[Change(PlacesKey(7, 1, CAP.key("news", "push")), StoredPlaces(), {"a#push": NOW}, 1)]], NOW
    )
    with pytest.raises(Retry):
        counter.give_back(ended("a", CANCELLED))


class CountedRequests:
    """A client that counts its requests by operation."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.requests: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.requests[name] += 1
        return getattr(self._client, name)


def test_hundred_recipients_take_two_requests(moto_dynamodb: Any) -> None:
    """A refused recipient is only read."""
    client: Any = CountedRequests(moto_dynamodb)
    counting = Counting(DynamoDbFrequencyCaps(table=new_table(moto_dynamodb, "frequency_caps"), client=client))
    users = list(range(200))
    for send_id in ("a", "b"):
        assert counting.take(send_id, users) == {}
    assert client.requests == {"batch_get_item": 4, "transact_write_items": 4}
    assert len(counting.take("c", users)) == 200
    assert client.requests == {"batch_get_item": 6, "transact_write_items": 4}
