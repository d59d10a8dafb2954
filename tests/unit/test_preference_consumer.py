"""The example's consumer of changed preferences signs in to Kafka as the functions do."""

import runpy
import signal
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from examples import preference_consumer


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
