"""The index of subscriptions finds what a comparison with each subscription finds."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from masscomm.decisions.event_matching import SubscriptionIndex
from masscomm.domain.records import EventOccurred
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.webhooks import EndpointKey

TYPES = ["match", "match.goal", "match.goal.own", "ticket", "matches"]
PATTERNS = ["*", "match.*", "match.goal.*", "ticket.*", *TYPES]
UNITS = ["100", "100/7", "100/7/1", "10", "200", "100/70"]
VALUES: list[Any] = [1, True, "1", None, 1.5]


def endpoint(number: int) -> EndpointKey:
    return EndpointKey(7, f"ep_7_{number:020d}")


def event(type_: str = "match.goal", club_id: int = 7, unit: str | None = None, **data: Any) -> EventOccurred:
    return EventOccurred(
        event_id="e", type=type_, club_id=club_id, unit=unit, occurred_at=1_700_000_000_000, data=json.dumps(data)
    )


def subscription(number: int = 1, **fields: Any) -> Subscription:
    given_fields: dict[str, Any] = {"types": ("match.goal",), "club_ids": (7,)} | fields
    return Subscription(id=f"sub_{number}", endpoint=fields.pop("endpoint", endpoint(1)), **given_fields)


def matches(each: Subscription, occurred: EventOccurred) -> bool:
    """Compare an event with one subscription, by the words of the documentation."""
    prefixes = [pattern[:-1] for pattern in each.types if pattern.endswith(".*")]
    is_type = "*" in each.types or occurred.type in each.types or any(map(occurred.type.startswith, prefixes))
    is_club = each.club_ids is None or occurred.club_id in each.club_ids
    is_unit = not each.units or (
        occurred.unit is not None
        and any(occurred.unit == unit or occurred.unit.startswith(f"{unit}/") for unit in each.units)
    )
    data = json.loads(occurred.data)
    passes = all(
        any(type(data.get(path)) is type(value) and data.get(path) == value for value in values)
        for path, values in each.filter.items()
    )
    return is_type and is_club and is_unit and passes


subscriptions = some.builds(
    Subscription,
    id=some.sampled_from([f"sub_{number}" for number in range(6)]),
    endpoint=some.integers(1, 4).map(endpoint),
    types=some.lists(some.sampled_from(PATTERNS), min_size=1, max_size=3).map(tuple),
    club_ids=some.none() | some.lists(some.integers(1, 3), min_size=1, max_size=3).map(tuple),
    units=some.lists(some.sampled_from(UNITS), max_size=3).map(tuple),
    filter=some.dictionaries(some.sampled_from("ab"), some.lists(some.sampled_from(VALUES), min_size=1, max_size=2)),
    fields=some.lists(some.sampled_from(["a", "b", "c.d"]), unique=True, max_size=2).map(tuple),
    revision=some.just(1),
)
events = some.builds(
    event,
    some.sampled_from(TYPES),
    some.integers(1, 4),
    some.none() | some.sampled_from(UNITS),
    a=some.sampled_from(VALUES),
    b=some.sampled_from(VALUES),
)


@given(put=some.lists(subscriptions, max_size=12), removed=some.sets(some.integers(0, 5)), occurred=events)
def test_the_index_equals_a_comparison_with_each(
    put: Sequence[Subscription], removed: set[int], occurred: EventOccurred
) -> None:
    """Subscriptions are added, replaced and removed."""
    index, left = SubscriptionIndex(), dict[str, Subscription]()
    for each in put:
        index.put(each)
        left[each.id] = each
    for number in removed:
        index.remove(f"sub_{number}")
        left.pop(f"sub_{number}", None)
    found = index.match(occurred)
    assert list(found) == sorted({each.endpoint for each in left.values() if matches(each, occurred)})
    for key, fields in found.items():
        lists = [each.fields for each in left.values() if each.endpoint == key and matches(each, occurred)]
        assert set(fields) == (set().union(*lists) if all(lists) else set())
    assert len(index) == len(left)


def test_an_endpoint_with_several_matches_is_found_once() -> None:
    index = SubscriptionIndex([subscription(1), subscription(2, types=("match.*",)), subscription(3, club_ids=None)])
    assert list(index.match(event())) == [endpoint(1)]


@pytest.mark.kills(guard="events.fields_of_several")
@pytest.mark.parametrize(
    ("lists", "fields"),
    [
        ([("b", "a")], ("b", "a")),
        ([("b",), ("a",)], ("a", "b")),
        ([("b",), ()], ()),
        ([(), ("b",)], ()),
    ],
)
def test_an_endpoint_receives_the_fields_of_all(lists: list[tuple[str, ...]], fields: tuple[str, ...]) -> None:
    """A subscription without fields wants all data."""
    index = SubscriptionIndex([subscription(number, fields=each) for number, each in enumerate(lists)])
    assert index.match(event()) == {endpoint(1): fields}


def test_a_removed_subscription_leaves_nothing() -> None:
    index = SubscriptionIndex([subscription(1, units=("100", "200"), club_ids=(7, 8))])
    index.remove("sub_1")
    assert index._to_endpoints._by_club == {}


@pytest.mark.parametrize(("unit", "is_found"), [("100/7", True), ("100", True), ("10", False), (None, False)])
def test_a_path_covers_the_units_below_it(unit: str | None, is_found: bool) -> None:
    index = SubscriptionIndex([subscription(units=("100",))])
    assert bool(index.match(event(unit=unit))) == is_found


def test_data_is_parsed_for_a_candidates_filter_alone() -> None:
    """Invalid JSON shows that no event is parsed for a subscription without a filter, or of another type."""
    unreadable = EventOccurred(event_id="e", type="match", club_id=7, occurred_at=1, data="{")
    others = [subscription(1, types=("match",)), subscription(2, types=("ticket",), filter={"a": [1]})]
    assert list(SubscriptionIndex(others).match(unreadable)) == [endpoint(1)]
    with pytest.raises(ValueError, match=r"Expecting|unexpected"):
        SubscriptionIndex([subscription(types=("match",), filter={"a": [1]})]).match(unreadable)
