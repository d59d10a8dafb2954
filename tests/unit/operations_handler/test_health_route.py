"""The health of an installation: lag, staleness and open dead letters."""

import pytest

from functions.catalogue import read_catalogue
from functions.operations_handler.routes.health import HealthRoute
from infra.cdk.resources.event_sources import consumer_group
from masscomm.clock import FixedClock
from masscomm.http.problem import Problem
from masscomm.kafka.avro import Codec
from masscomm.operations.dead_letter_store import InMemoryDeadLetters
from masscomm.operations.health import GROUP, DirectoryAge, InMemoryHealth, Lag, consumed_topics
from tests.support.harness.operations_api import LETTERS_AT, letter, registry

CLOCK = FixedClock(1_795_262_400_000)  # 2026-11-21T12:00:00Z
LAGS = [Lag(function="builder", topic="build", records=1), Lag(function="delivery", topic="delivery", records=5)]


def route(*ages: DirectoryAge, offers_unsubscribe: bool = True) -> HealthRoute:
    letters = InMemoryDeadLetters([letter(Codec(registry()))], allowed=frozenset(), now=LETTERS_AT)
    return HealthRoute(InMemoryHealth(LAGS, ages), letters, CLOCK, offers_unsubscribe)


def test_lag_staleness_and_letters_are_reported() -> None:
    ages = DirectoryAge(generation="g1", heartbeat_at_ms=CLOCK.now_ms() - 1_500)
    assert route(ages, DirectoryAge(generation="g2", heartbeat_at_ms=None)).answer({}) == {
        "lag": [
            {"function": "delivery", "topic": "delivery", "records": 5},
            {"function": "builder", "topic": "build", "records": 1},
        ],
        "lag_total": 6,
        "directory": [
            {"generation": "g1", "heartbeat_at": "2026-11-21T11:59:58.500Z", "staleness_s": 1.5},
            {"generation": "g2", "heartbeat_at": None, "staleness_s": None},
        ],
        "open_dead_letters": 1,
        "categories_without_unsubscribe": [],
        "generated_at": "2026-11-21T12:00:00Z",
    }


@pytest.mark.kills(guard="unsubscribe.missing_way_out_is_seen")
def test_e_mails_without_a_way_to_unsubscribe_are_reported() -> None:
    assert route(offers_unsubscribe=False).answer({})["categories_without_unsubscribe"] == ["newsletter"]


def test_a_parameter_is_refused() -> None:
    with pytest.raises(Problem) as raised:
        route().answer({"club_id": ["1"]})
    assert raised.value.status == 400


def test_consumed_topics_are_those_of_the_catalogue() -> None:
    """The function's package does not contain the catalogue."""
    entries = {entry.name: entry for entry in read_catalogue(generation="g1,g2") if entry.event_source is not None}
    consumed = consumed_topics("g1,g2")
    assert {name: sorted(topics) for name, topics in consumed.items()} == {
        name: sorted(entry.event_source.topics) for name, entry in entries.items() if entry.event_source
    }
    assert all(GROUP.format(function=name) == entry.group for name, entry in entries.items())
    assert consumer_group("masscomm.builder", "build") == "masscomm.{function}.{topic}".format(
        function="builder", topic="build"
    )
