from pathlib import Path
from typing import Any

import pytest
import yaml

from functions.catalogue import RETRIES_WITH_DESTINATION
from local.emulators.event_source import PartialFailures, Pollers
from local.emulators.event_source.spec import by_topic
from local.emulators.function_catalogue import Deployment, read_deployments
from masscomm.stores.discarded_batches.s3 import BUCKET_SETTING

ROOT = Path(__file__).parents[3]


def read(path: Path, **changes: Any) -> dict[str, Deployment]:
    config: dict[str, Any] = {"task_root": ROOT, "generation": "g1", "environment": {"A": "1"}}
    return {each.function.name: each for each in read_deployments(path, **(config | changes))}


def write(folder: Path, **event_source: Any) -> Path:
    path = folder / "functions.yaml"
    source = {"topics": ["build"]} | event_source
    defaults = {"timeout_s": 60, "memory_mb": 512, "concurrency": 2}
    function = {"handler": "a.b.handler", "lanes": ["bulk", "critical"], "event_source": source}
    path.write_text(yaml.safe_dump({"defaults": defaults, "functions": {"f": function}}))
    return path


def test_function_of_two_lanes_is_deployed_twice(tmp_path: Path) -> None:
    """Both deployments have one package."""
    deployed = read(write(tmp_path))
    assert set(deployed) == {"f", "f-critical"}
    bulk, critical = deployed["f"], deployed["f-critical"]
    assert bulk.function.handler == critical.function.handler == "a.b.handler"
    assert bulk.function.environment["MASSCOMM_LANE"] == "bulk"
    assert critical.function.environment["MASSCOMM_LANE"] == "critical"
    assert critical.function.environment["POWERTOOLS_SERVICE_NAME"] == "f"
    assert critical.function.environment["A"] == "1"
    assert bulk.mapping is not None
    assert critical.mapping is not None
    queues = ("build", "build.bulk2", "build.bulk3", "build.bulk4")
    assert (bulk.mapping.group, bulk.mapping.topics) == ("masscomm.f", ("build.small", *queues))
    assert bulk.mapping.turns == (("build.small",), queues)
    assert (critical.mapping.group, critical.mapping.topics) == ("masscomm.f-critical", ("build.critical",))
    assert critical.mapping.concurrency == 2


def test_bulk_functions_have_the_configured_niceness(tmp_path: Path) -> None:
    assert {name: each.function.nice for name, each in read(write(tmp_path), bulk_nice=7).items()} == {
        "f": 7,
        "f-critical": 0,
    }
    own = read(ROOT / "functions" / "functions.yaml", bulk_nice=7)
    assert [own[name].function.nice for name in ("delivery", "cdc_consumer", "send_handler")] == [7, 0, 0]
    assert {each.function.nice for each in read(write(tmp_path)).values()} == {0}


def test_config_of_a_trigger_is_the_mappings(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        batch_size=7,
        window_s=1.5,
        attempts=3,
        max_age_s=60,
        bisect=True,
        on_failure="on-failure",
        partial_failures="from_lowest",
    )
    mapping = read(path, mapping_overrides={"first_backoff_s": 0.5})["f-critical"].mapping
    assert mapping is not None
    assert (*mapping.batching_of("build.critical"), mapping.retries, mapping.max_age_s) == (7, 1.5, 3, 60)
    assert mapping.bisect
    assert mapping.on_failure == "on-failure"
    assert mapping.partial_failures is PartialFailures.FROM_LOWEST
    assert mapping.first_backoff_s == 0.5
    assert mapping.function_arn.endswith(":function:f-critical")


def test_on_demand_mode_omits_the_settings_of_provisioned(tmp_path: Path) -> None:
    path = write(tmp_path, batch_size=7, window_s=1.5, attempts=3, max_age_s=60, bisect=True, on_failure="on-failure")
    deployed = read(path, pollers=Pollers.ON_DEMAND)["f"]
    mapping = deployed.mapping
    assert mapping is not None
    assert mapping.batch_size == 7
    assert (mapping.retries, mapping.max_age_s, mapping.bisect, mapping.on_failure) == (-1, -1, False, None)
    assert deployed.function.environment["MASSCOMM_POLLERS"] == "on-demand"
    assert deployed.function.environment["BATCH_RETRIES"] == "3"


@pytest.mark.parametrize("attempts", [None, RETRIES_WITH_DESTINATION])
def test_function_hands_over_before_lambda_discards(tmp_path: Path, attempts: int | None) -> None:
    """A record that crashes its function is handed over two invocations after its last retry."""
    path = write(tmp_path, on_failure="on-failure", **({} if attempts is None else {"attempts": attempts}))
    deployed = read(path, pollers=Pollers.ON_DEMAND, environment={BUCKET_SETTING: "discarded"})["f"]
    mapping = deployed.mapping
    assert mapping is not None
    assert mapping.on_failure == "arn:aws:s3:::discarded"
    assert int(deployed.function.environment["BATCH_RETRIES"]) + 2 == mapping.retries


def test_chain_has_the_chosen_number_of_environments() -> None:
    deployed = read(ROOT / "functions" / "functions.yaml", environments=4)
    chain = {"preference_checker", "builder", "delivery"}
    for name, each in deployed.items():
        if name.removesuffix("-critical") in chain:
            assert each.function.concurrency == each.function.warm == 4
        else:
            assert each.function.warm <= 1
    mapping = deployed["delivery"].mapping
    assert mapping is not None
    assert [(each.topics, each.group, each.concurrency) for each in by_topic(mapping)] == [
        ((topic,), mapping.group, 4) for topic in mapping.topics
    ]


def test_small_and_critical_topics_have_their_batch_size(tmp_path: Path) -> None:
    deployed = read(write(tmp_path, batch_size=4, small_batch_size=40))
    bulk, critical = deployed["f"].mapping, deployed["f-critical"].mapping
    assert bulk is not None
    assert critical is not None
    assert {topic: bulk.batching_of(topic).size for topic in bulk.topics} == {
        "build.small": 40,
        **dict.fromkeys(("build", "build.bulk2", "build.bulk3", "build.bulk4"), 4),
    }
    assert critical.batching_of("build.critical").size == 40


def test_topics_of_new_sends_have_the_small_batch_size() -> None:
    mapping = read(ROOT / "functions" / "functions.yaml")["preference_checker"].mapping
    assert mapping is not None
    sizes = {topic: mapping.batching_of(topic).size for topic in mapping.topics}
    assert sizes["send.monolith"] == sizes["send.api"] == sizes["recheck.small"] == 60
    assert sizes["recheck"] == sizes["recheck.bulk2"] == 10


def test_window_of_a_topic_is_that_of_each_of_its_lanes(tmp_path: Path) -> None:
    changes = {"topics": ["build", "recheck"], "window_s": 0, "windows": {"build": 2}}
    mapping = read(write(tmp_path, **changes))["f"].mapping
    assert mapping is not None
    windows = {topic: mapping.batching_of(topic).window_s for topic in mapping.topics}
    assert windows["build"] == windows["build.small"] == 2
    assert windows["recheck"] == 0


def test_window_of_another_topic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="recheck"):
        read(write(tmp_path, window_s=0, windows={"recheck": 2}))


def test_a_setting_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batchsize"):
        read(write(tmp_path, batchsize=7))


def test_change_topics_are_those_of_the_generation() -> None:
    mapping = read(ROOT / "functions" / "functions.yaml")["cdc_consumer"].mapping
    assert mapping is not None
    assert mapping.group == "masscomm.cdc_consumer"
    assert "cdc.g1.public.users" in mapping.topics
    assert mapping.retries == -1


def test_functions_yaml_can_be_deployed() -> None:
    deployed = read(ROOT / "functions" / "functions.yaml")
    assert {"preference_checker", "preference_checker-critical", "send_handler"} <= set(deployed)
    assert deployed["send_handler"].routes[0].method == "POST"
    assert deployed["scheduler"].schedule_s == 60
    scheduled = {name for name, each in deployed.items() if each.schedule_s is not None}
    assert scheduled == {"scheduler", "preferences_handler", "events_api", "webhook_events"}


@pytest.mark.parametrize("seconds", [0, -1, "60", True])
def test_a_schedule_is_a_number_of_seconds(tmp_path: Path, seconds: object) -> None:
    path = write(tmp_path)
    document = yaml.safe_load(path.read_text())
    document["functions"]["f"]["schedule_s"] = seconds
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ValueError, match="schedule_s"):
        read(path)
