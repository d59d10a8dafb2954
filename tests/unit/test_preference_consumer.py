"""The examples' consumer of changed preferences: its sign-in to Kafka, and the rules that it writes."""

import copy
import runpy
import signal
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import preference_consumer
from masscomm.domain.preference_changes import Wish, after_wishes


class Opened(Exception):
    """A consumer is opened with these properties."""


def _open(properties: Mapping[str, Any]) -> None:
    raise Opened(properties)


@pytest.mark.parametrize(
    ("authentication", "protocol", "mechanism"), [("none", None, None), ("aws_msk_iam", "SASL_SSL", "OAUTHBEARER")]
)
def test_consumer_has_the_sign_in_of_the_setting(
    authentication: str, protocol: str | None, mechanism: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preference_consumer, "Consumer", _open)
    monkeypatch.setattr(signal, "signal", lambda _number, _handler: None)
    monkeypatch.setenv("KAFKA_AUTHENTICATION", authentication)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    arguments = ["apply", "--kafka", "broker:9098", "--registry", "http://registry", "--dsn", "postgresql://none"]
    monkeypatch.setattr(sys, "argv", arguments)
    # Another test may have imported the module, which runs here as a program.
    monkeypatch.delitem(sys.modules, "examples.monolith.apply_preferences", raising=False)
    with pytest.raises(Opened) as opened:
        runpy.run_module("examples.monolith.apply_preferences", run_name="__main__")
    properties = opened.value.args[0]
    assert properties["bootstrap.servers"] == "broker:9098"
    assert (properties.get("security.protocol"), properties.get("sasl.mechanisms")) == (protocol, mechanism)


WISHES = st.builds(
    Wish,
    st.none() | st.sampled_from(["news", "newsletter"]),
    st.none() | st.sampled_from(["push", "email"]),
    st.booleans(),
).filter(lambda wish: wish.category is not None or wish.channel is not None)
OF_CHANNELS = st.dictionaries(st.sampled_from(["push", "Push", "email"]), st.booleans())
OF_CATEGORIES = st.dictionaries(st.sampled_from(["news", "News ", "newsletter"]), st.booleans() | OF_CHANNELS)


@given(channels=OF_CHANNELS, categories=OF_CATEGORIES, wishes=st.lists(WISHES, max_size=3))
def test_written_rules_are_those_that_applied_before(
    channels: dict[str, Any], categories: dict[str, Any], wishes: list[Wish]
) -> None:
    """The row that the monolith writes has the rules that masscomm has applied since the request, in any spelling."""
    expected = after_wishes(channels, categories, wishes)
    written = copy.deepcopy((channels, categories))
    record = {"changes": [{**wish._asdict(), "version": number} for number, wish in enumerate(wishes, start=1)]}
    preference_consumer.set_rules(*written, record, 0)
    assert written == expected
