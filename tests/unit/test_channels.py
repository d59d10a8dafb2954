"""A channel is an entry of masscomm/domain/channels.py and a sender: every list of channels derives from the entry."""

from typing import Any

import pytest

from masscomm.channels.senders import check_senders
from masscomm.domain.categories import categories, category
from masscomm.domain.channels import CHANNELS
from masscomm.errors import Stop
from masscomm.observability.metric_names import (
    PROVIDER_CALLS,
    PROVIDER_ERRORS,
    PROVIDER_LATENCY,
    PROVIDER_THROTTLES,
)
from tests.support.changed_tree import changed_tree, printed_json
from tests.support.harness.delivery import Delivery
from tests.support.made_up_channel import ENTRY

LAST = """                quota_per_s=10,
                noun="SMS",
            ),
"""


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of a send on a third channel, and the lists that derive from the channels."""
    tree = changed_tree(tmp_path_factory.mktemp("tree"), {"masscomm/domain/channels.py": (LAST, LAST + ENTRY)})
    found: dict[str, Any] = printed_json(tree, "from tests.support.made_up_channel import print_facts; print_facts()")
    return found


def test_an_added_channel_is_sent_and_counted(facts: dict[str, Any]) -> None:
    assert facts["sent"] == [["+34600000001", "Dear", "member"]]
    assert facts["results"] == {
        "1": ["sent", None],
        "2": ["suppressed", "opted_out"],
        "3": ["suppressed", "no_address"],
        "4": ["failed", "provider_rejected"],
    }
    assert (facts["redelivered"], facts["dead_letters"]) == ([], 0)
    assert facts["counted"] == "LetterCalls"


def test_an_added_channel_is_in_every_list(facts: dict[str, Any]) -> None:
    assert facts["api"] == [*CHANNELS, "letter"]
    assert facts["fields"] == facts["literal"][:1] + facts["literal"][1:] == ["heading", "words"]
    assert facts["metrics"] == ["LetterCalls", "LetterThrottles", "LetterErrors", "LetterLatency"]
    assert (facts["quota"], facts["setting"]) == (3, "LETTER_RATE_PER_S")
    assert facts["limiters"] == sorted([*CHANNELS, "letter"])
    assert facts["limit"] >= len(facts["api"])


@pytest.mark.kills(guard="channels.each_has_a_sender")
def test_delivery_does_not_start_without_a_sender(facts: dict[str, Any]) -> None:
    """Without a sender, the channel's recipients would be suppressed as if their devices were inactive."""
    assert facts["without_sender"] == "channels without a sender: letter"
    with pytest.raises(Stop, match="email"):
        check_senders({"push": Delivery().senders()["push"]})


def test_categories_and_metrics_have_known_channels() -> None:
    assert {channel for name in categories() for channel in category(name).channels} <= CHANNELS.keys()
    for metrics in (PROVIDER_CALLS, PROVIDER_ERRORS, PROVIDER_LATENCY, PROVIDER_THROTTLES):
        assert metrics.keys() == CHANNELS.keys()
