"""Our packages and stacks on LocalStack: the deployed resources exist, work, and are gone after the destruction.

One deployment serves every test here. It takes some minutes, so `make test` leaves it out:

    python -m pytest tests/localstack --deployment whole

`make deploy-local` runs the same checks with change sets, and also waits for the schedule.
"""

from collections.abc import Iterator

import pytest

from functions.catalogue import read_catalogue
from local.devstack.config import StackConfig
from local.devstack.deployed.allowed import read_allowed
from local.devstack.deployed.cloud import Cloud
from local.devstack.deployed.trial import SMOKE_CHECKS, Trial, run

ALLOWED = {(each.stack, each.type) for each in read_allowed()}
KINDS = ("Function", "Alias", "Version")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, one_stack_at_a_time: None) -> Iterator[Cloud]:
    """LocalStack with our plug-ins, and the external servers."""
    with Cloud(StackConfig.on_free_ports(tmp_path_factory.mktemp("deployed"))) as started:
        yield started


@pytest.fixture(scope="module")
def trial(cloud: Cloud) -> Trial:
    return run(cloud, whole=False)


# --- the deployment ---


def test_missing_resources_are_in_the_reviewed_list(trial: Trial) -> None:
    assert not [each for each in trial.missing if each[:2] not in ALLOWED]
    assert len(trial.resources) > 300


def test_no_existing_resource_is_in_the_reviewed_list(trial: Trial) -> None:
    assert {each[:2] for each in trial.missing} == ALLOWED


def test_each_catalogued_function_is_deployed_with_alias(trial: Trial) -> None:
    wanted = {f"masscomm-local-{entry.name}" for entry in read_catalogue(generation="g1")}
    deployed = {kind: [id for _, each, id in trial.resources if each == f"AWS::Lambda::{kind}"] for kind in KINDS}
    assert wanted <= set(deployed["Function"])
    assert len(deployed["Alias"]) == len(deployed["Version"]) == len(wanted)


def test_deployment_differs_in_nothing_from_its_templates(trial: Trial) -> None:
    assert "Number of stacks with differences: 0" in trial.diff


def test_destroyed_deployment_leaves_no_resource(trial: Trial) -> None:
    assert trial.remaining == {}


# --- its behaviour ---


def test_send_through_deployed_functions_is_pushed_once(trial: Trial) -> None:
    assert trial.now is not None
    assert trial.now.answer.status == 202
    assert trial.now.answer.body["requested"] == trial.now.expected.requested
    assert len(trial.now.endpoints) == trial.now.expected.provider_calls > 0
    assert trial.now.pushed == trial.now.must_be_pushed


def test_smoke_finds_no_problem_in_the_deployment(trial: Trial) -> None:
    assert len(trial.smoke) == SMOKE_CHECKS
    assert trial.smoke_problems == {}


def test_missing_or_foreign_api_key_is_refused(trial: Trial) -> None:
    statuses = {request: answer.status for request, answer in trial.refused.items()}
    assert statuses == {"no key": 401, "unknown key": 401, "a key of another club": 403}
    # The gateway's own errors are problem details only if LocalStack applies templates of gateway responses.
    assert trial.refused["a key of another club"].body["title"] == "Forbidden"


def test_metrics_are_read_from_the_external_database(trial: Trial) -> None:
    assert trial.read is not None
    assert (trial.read.status, trial.read.body["rows"]) == (200, [])
