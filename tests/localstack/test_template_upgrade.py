"""The stacks of the first version are upgraded to this version's templates on LocalStack, and back again.

LocalStack updates the stacks with data. It updates neither an alias of a function nor a stage of an API, and reports
success: the other stacks, which have no data, are deleted before and created again, as in an installation whose
exported values change (CHANGELOG.md). The test takes some 20 minutes:

    python -m pytest tests/localstack/test_template_upgrade.py --deployment whole
"""

from pathlib import Path

import pytest

from infra.replacements import findings, written_templates
from local.devstack.config import ROOT, StackConfig
from local.devstack.deployed.account import inventory, missing, stack_resources
from local.devstack.deployed.allowed import FILE, read_allowed
from local.devstack.deployed.cloud import ENVIRONMENT, PREFIX, Cloud
from tests.upgrade.earlier import FIRST_VERSION, tree_of

ALLOWED = FILE.relative_to(ROOT)
WITH_DATA = [f"{PREFIX}-{name}" for name in ("network", "data")]


def test_upgrade_and_rollback_keep_the_data(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, one_stack_at_a_time: None
) -> None:
    """Each resource of the deployed templates exists, and a table and a bucket keep their data."""
    folder = tmp_path_factory.mktemp("templates")
    version = request.config.getoption("--upgrade-from") or FIRST_VERSION
    with (
        tree_of(version, folder / "tree") as earlier,
        Cloud(StackConfig.on_free_ports(folder / "state")) as cloud,
    ):
        cloud.prepare()
        cloud.synthesise()
        own = cloud.packages, cloud.assembly
        former = folder / "packages", folder / "cdk" / ENVIRONMENT
        cloud.packages, cloud.assembly = former
        cloud.package(earlier)
        cloud.synthesise(earlier)
        _check_replacements(former[1], own[1])
        cloud.bootstrap()
        _deploy(cloud, earlier)
        _write(cloud)
        _remove_others(cloud)
        cloud.packages, cloud.assembly = own
        _deploy(cloud, ROOT)
        assert _kept(cloud) == {"table": 1, "bucket": 1}
        _remove_others(cloud)
        cloud.packages, cloud.assembly = former
        _deploy(cloud, earlier)
        assert _kept(cloud) == {"table": 1, "bucket": 1}


def _check_replacements(former: Path, own: Path) -> None:
    """CloudFormation replaces no resource with data and refuses no change, in both directions."""
    for before, after in ((former, own), (own, former)):
        deployed = {name: each for name, each in written_templates(before).items() if name in WITH_DATA}
        assert sorted(deployed) == sorted(WITH_DATA)
        assert findings(deployed, written_templates(after)) == []


def _deploy(cloud: Cloud, tree: Path) -> None:
    """Deploy the templates of a checkout, and check that the stacks' resources exist."""
    cloud.deploy(change_sets=False)
    # CDK reports success, because LocalStack gives a stack whose update failed the status UPDATE_COMPLETE.
    assert _failures(cloud) == []
    absent = missing(stack_resources(cloud.client, PREFIX), inventory(cloud.client))
    allowed = {(each.stack, each.type) for each in read_allowed(tree / ALLOWED)}
    assert not [each for each in absent if each[:2] not in allowed]


def _failures(cloud: Cloud) -> list[str]:
    formation = cloud.client("cloudformation")
    pages = [
        page
        for name in written_templates(cloud.assembly)
        for page in formation.get_paginator("describe_stack_events").paginate(StackName=name)
    ]
    return [
        f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason')}"
        for page in pages
        for event in page["StackEvents"]
        if event["ResourceStatus"].endswith("FAILED")
    ]


def _remove_others(cloud: Cloud) -> None:
    """Delete the stacks without data."""
    others = sorted(written_templates(cloud.assembly).keys() - set(WITH_DATA))
    cloud.cdk("destroy", *others, "--force")


def _write(cloud: Cloud) -> None:
    cloud.client("dynamodb").put_item(TableName=f"{PREFIX}-api_keys", Item={"id": {"S": "kept"}})
    cloud.client("s3").put_object(Bucket=_archive(cloud), Key="kept", Body=b"data")


def _kept(cloud: Cloud) -> dict[str, int]:
    """Return the number of items and objects that were stored before the first update."""
    table = cloud.client("dynamodb").get_item(TableName=f"{PREFIX}-api_keys", Key={"id": {"S": "kept"}})
    objects = cloud.client("s3").list_objects_v2(Bucket=_archive(cloud), Prefix="kept")
    return {"table": int("Item" in table), "bucket": objects["KeyCount"]}


def _archive(cloud: Cloud) -> str:
    names: list[str] = [each["Name"] for each in cloud.client("s3").list_buckets()["Buckets"]]
    [archive] = [name for name in names if name.startswith(PREFIX) and "archive" in name]
    return archive
