"""Each duration is defined once, in masscomm/domain/time_limits.py, and the deployment keeps the rules about it."""

import ast
import json
import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from functions.catalogue import read_catalogue
from local.devstack.config import ROOT
from masscomm.channels.sns_push import SnsPush
from masscomm.clock import FixedClock
from masscomm.domain import time_limits
from masscomm.domain.time_limits import RETRY_LIFETIME_S, RULES
from masscomm.kafka.topics import base_of, cdc_topics, chain_topics
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger

PACKAGES = ("masscomm", "functions")
CDC = "cdc"
DURATION = re.compile(r"_(S|MS|SECONDS|MIN|DAYS)$|KEPT|TIMEOUT")
# Durations of a single module, which no rule relates to another duration.
OF_ONE_MODULE = {
    "masscomm/channels/gateway.py": {"_SENDER_FLOOR_PER_S"},
    # A time to live, as SendTextMessage takes it.
    "masscomm/channels/aws_sms.py": {"_SHORTEST_TTL_S", "_LONGEST_TTL_S"},
    # These are limits of formats and calendars.
    "masscomm/cdc/change_events.py": {"_LAST_MS"},
    "masscomm/domain/limits.py": {
        *(
            "FAR_FUTURE_MS",
            "END_OF_TIME_MS",
            "LATEST_WRITTEN_MS",
            "MAX_AHEAD_MS",
            "MAX_REQUEST_AHEAD_MS",
            "EARLIEST_MS",
        ),
        "STEP_S",
    },
    "masscomm/domain/pace.py": {"MINUTE_MS"},
    "masscomm/domain/quiet_hours.py": {"_QUARTER_MS"},
    "masscomm/domain/suppressions.py": {"DAY_MS", "NEVER_MS"},
    "masscomm/stores/delayed_records/port.py": {"MINUTE_MS"},
    "functions/operations_handler/routes/dead_letters.py": {"_BUDGET_S", "_RESERVE_S"},
    "functions/operations_handler/routes/keys.py": {"DEFAULT_HOURS", "MAX_HOURS"},
    "masscomm/kafka/topic_reading.py": {"TIMEOUT_S"},
    "masscomm/operations/dead_letter_replays.py": {"TIMEOUT_S"},
    "masscomm/operations/keys.py": {"HOUR_S"},
    "masscomm/operations/route_costs.py": {"PLAIN_S"},
    "functions/metrics_handler/buckets.py": {"MAX_ZONE_DAYS"},
    "functions/metrics_handler/routes/trending.py": {"DEFAULT_WINDOW_MIN", "MAX_WINDOW_MIN"},
    # Lifetimes of a connection and of a signer, each used in one module.
    "masscomm/aws/async_http.py": {"FRESH_S"},
    "masscomm/aws/request.py": {"SIGNER_S"},
    # The interval of writing a key's last use, and the pause after a conflict.
    "masscomm/stores/api_keys/dynamodb.py": {"_USE_RECORDED_S"},
    "masscomm/stores/key_usage/dynamodb.py": {"_PAUSE_S"},
    # Numbers of entries and rates, which only look like durations.
    "masscomm/kafka/avro.py": {"_DENIALS_KEPT"},
    "functions/preference_checker/small_sends.py": {"PER_S"},
    "masscomm/channels/rate_limiter.py": {
        *("_INCREASE_PER_S", "_ACCELERATION_PER_S", "_FLOOR_PER_S"),
        # Windows of the rate limiter's own measurements.
        *("_WINDOW_S", "_CATCH_UP_S", "_MAX_WAIT_S"),
    },
    "masscomm/channels/push.py": {"_MAX_TTL_S"},
    "functions/delivery/quiet_hours_recheck.py": {"RECHECK_AFTER_S"},
}


@cache
def _deployed() -> dict[str, Any]:
    """Return the names that rules may use: each duration, and the deployed time limits, schedules and retentions in
    seconds.
    """
    catalogue = {entry.package: entry for entry in read_catalogue(generation="g1")}
    kept = {base_of(topic.name): topic.retention_hours * 3_600 for topic in chain_topics()}
    (compaction,) = {topic.compaction for topic in cdc_topics("g1") if topic.compaction is not None}
    (kept[CDC],) = {topic.retention_hours * 3_600 for topic in cdc_topics("g1")}
    return {
        **_durations(),
        "timeout_s": lambda name: catalogue[name].timeout_s,
        "every_s": lambda name: catalogue[name].schedule_s,
        "kept_s": kept.__getitem__,
        **{
            f"{name}_s": {CDC: hours * 3_600}.__getitem__
            for name, hours in (
                ("segment", compaction.segment_hours),
                ("due", compaction.due_hours),
                ("tombstone", compaction.tombstone_hours),
            )
        },
    }


def _durations() -> dict[str, Any]:
    return {name: value for name, value in vars(time_limits).items() if name.isupper() and name not in ("RULES",)}


def _holds(rule: str, names: dict[str, Any]) -> bool:
    return bool(eval(rule, {}, names))  # noqa: S307  # our own text


@pytest.mark.parametrize("rule", RULES)
def test_rule_of_durations_holds(rule: str) -> None:
    assert _holds(rule, _deployed()), RULES[rule]


def test_each_duration_has_a_rule() -> None:
    named = {node.id for rule in RULES for node in ast.walk(ast.parse(rule)) if isinstance(node, ast.Name)}
    public = {name for name in _durations() if not name.startswith("_")}
    assert public - named - {"PROVIDER_CONNECT_S", "PROVIDER_READ_S"} == set(), "the two are in PROVIDER_CALL_S"


@pytest.mark.parametrize(
    "name", sorted(name for name, value in _durations().items() if isinstance(value, int | float) and name[0] != "_")
)
def test_a_much_longer_or_shorter_duration_breaks_a_rule(name: str) -> None:
    """A rule notices each duration that is multiplied or divided by 100,000."""
    names = _deployed()
    if name in ("PROVIDER_CONNECT_S", "PROVIDER_READ_S"):
        return
    broken = [
        rule
        for factor in (0.00001, 100_000)
        for rule in RULES
        if name in rule and not _holds(rule, names | {name: names[name] * factor})
    ]
    assert broken != []


def _retentions() -> list[str]:
    """Return each retention as rules name it."""
    topics = sorted({base_of(topic.name) for topic in chain_topics()} | {CDC})
    return [name for name in _durations() if "_KEPT_" in name] + [f"kept_s('{topic}')" for topic in topics]


def _compares(rule: str, retention: str) -> bool:
    """Return whether a rule compares a retention with another duration, and not with a number alone."""
    durations = (ast.Call, ast.Name)
    found = {ast.unparse(node) for node in ast.walk(ast.parse(rule)) if isinstance(node, durations)}
    return retention in found and len(found - {retention, "kept_s", "min", "max", "sum"}) > 0


@pytest.mark.parametrize("retention", _retentions())
def test_a_shorter_retention_breaks_a_rule(retention: str) -> None:
    """A rule notices a retention that is too short for another duration."""
    names = _deployed()

    def kept_s(topic: str) -> float:
        return float(names["kept_s"](topic)) * (0.00001 if retention == f"kept_s('{topic}')" else 1)

    shorter = {"kept_s": kept_s} if retention.startswith("kept_s") else {retention: names[retention] * 0.00001}
    compared = [rule for rule in RULES if _compares(rule, retention)]
    assert [rule for rule in compared if not _holds(rule, names | shorter)] != []


def test_retention_of_the_ledger_depends_on_the_topics() -> None:
    """A longer retention of the delivery topics needs a longer one of the ledger."""
    names = _deployed()
    longer = {"kept_s": lambda name: names["kept_s"](name) * (3 if name == "delivery" else 1)}
    assert [rule for rule in RULES if not _holds(rule, names | longer)] != []


def _constants(path: str) -> Iterator[str]:
    """Return the names of a module's durations that are defined as numbers."""
    for node in ast.parse((ROOT / path).read_text()).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        value = getattr(node, "value", None)
        numbers = [each for each in ast.walk(value) if isinstance(each, ast.Constant)] if value is not None else []
        if any(isinstance(each.value, int | float) and not math.isnan(each.value) for each in numbers):
            yield from (name.id for name in names if isinstance(name, ast.Name) and DURATION.search(name.id))


def test_durations_stand_in_one_module() -> None:
    paths = [path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert "masscomm/stores/delivery_ledger/port.py" in paths
    elsewhere = {
        (path, name)
        for path in paths
        if path != "masscomm/domain/time_limits.py"
        for name in _constants(path)
        if name not in OF_ONE_MODULE.get(path, set())
    }
    assert elsewhere == set()


def test_adapters_keep_the_limits_of_their_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    provider = SnsPush()._api._requests._limits
    assert provider.connect_s + provider.read_s == time_limits.PROVIDER_CALL_S
    ledger = DynamoDbDeliveryLedger(table="t", owner="o", clock=FixedClock())._client._limits
    assert ledger.attempts * (ledger.connect_s + ledger.read_s) <= time_limits.LEDGER_WRITE_S


@pytest.mark.parametrize("language", ["de", "en"])
def test_the_console_names_the_days_of_retries(language: str) -> None:
    texts = json.loads((ROOT / f"web/src/i18n/{language}.json").read_text())["compose"]
    for text in (texts["expires"], texts["never"]):
        assert [int(number) for number in re.findall(r"\d+", text)] == [RETRY_LIFETIME_S // 86_400]
