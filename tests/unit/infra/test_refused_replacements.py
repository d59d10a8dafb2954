"""A deployment that would replace a connector, a topic, a server or an imported value is refused before it begins."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from infra import replacements
from infra.replacements import CREATE_ONLY, findings
from tests.support.cdk.resolved import REGION
from tests.support.cdk.templates import SynthesisedEnvironment


@pytest.fixture
def before(prod: SynthesisedEnvironment) -> dict[str, Any]:
    return {f"masscomm-prod-{stack}": template for stack, template in prod.templates().items()}


def _changed(before: dict[str, Any], stack: str, kind: str, **properties: Any) -> tuple[str, dict[str, Any]]:
    """Return the logical id of the first resource of a type, and the templates with other properties of it."""
    after = copy.deepcopy(before)
    resources = after[f"masscomm-prod-{stack}"]["Resources"]
    id = next(id for id, each in resources.items() if each["Type"] == kind)
    resources[id]["Properties"] |= properties
    return id, after


@pytest.mark.parametrize(
    ("stack", "kind", "changed"),
    [
        ("cdc", "AWS::KafkaConnect::Connector", {"KafkaConnectVersion": "4.1.x"}),
        ("data", "AWS::MSK::Topic", {"ReplicationFactor": 2}),
        ("data", "AWS::RDS::DBInstance", {"DBInstanceIdentifier": "other"}),
    ],
)
def test_replacement_is_a_finding(before: dict[str, Any], stack: str, kind: str, changed: dict[str, Any]) -> None:
    id, after = _changed(before, stack, kind, **changed)
    assert f"masscomm-prod-{stack}: {kind} {id} would be replaced: {next(iter(changed))}" in findings(before, after)


@pytest.mark.parametrize(
    ("stack", "kind", "changed"),
    [
        ("data", "AWS::MSK::Cluster", {"KafkaVersion": "4.0.x.kraft"}),
        ("data", "AWS::MSK::Topic", {"PartitionCount": 500}),
        ("data", "AWS::OpenSearchService::Domain", {"EngineVersion": "OpenSearch_3.1"}),
        ("registry", "AWS::RDS::DBInstance", {"EngineVersion": "17.9", "DBInstanceClass": "db.t4g.large"}),
    ],
)
def test_update_in_place_is_no_finding(before: dict[str, Any], stack: str, kind: str, changed: dict[str, Any]) -> None:
    _, after = _changed(before, stack, kind, **changed)
    assert after != before
    assert findings(before, after) == []


def test_connector_of_a_replaced_plugin_is_a_finding(before: dict[str, Any]) -> None:
    """The connector's own properties refer to the plugin by its logical id, and do not change."""
    _, after = _changed(before, "cdc", "AWS::KafkaConnect::CustomPlugin", Name="another")
    (line,) = findings(before, after)
    assert line.startswith("masscomm-prod-cdc: AWS::KafkaConnect::Connector")
    assert line.endswith("would be replaced: Plugins")


def test_exported_value_in_use_must_not_change(before: dict[str, Any]) -> None:
    after = copy.deepcopy(before)
    outputs = after["masscomm-prod-data"]["Outputs"]
    used = json.dumps([template for stack, template in before.items() if stack != "masscomm-prod-data"])
    name, *_ = [key for key, each in outputs.items() if "Export" in each and f'"{each["Export"]["Name"]}"' in used]
    export = outputs.pop(name)["Export"]["Name"]
    (line,) = findings(before, after)
    assert line.startswith(f"masscomm-prod-data: the exported value {export} vanishes, and masscomm-prod-")
    # Nothing imports from the stacks that are deleted with it.
    assert findings({"masscomm-prod-data": before["masscomm-prod-data"]}, after) == []


def test_properties_that_replace_are_those_of_cloudformation() -> None:
    """cfn-lint has CloudFormation's schema of each type: https://github.com/aws-cloudformation/cfn-lint"""
    for kind, properties in CREATE_ONLY.items():
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema
        assert {f"/properties/{name}" for name in properties} == {*schema["createOnlyProperties"]}, kind


class CloudFormation:
    """A fake of boto3's client, with one deployed stack."""

    def get_template(self, *, StackName: str) -> dict[str, Any]:
        if StackName != "masscomm-dev-data":
            error: Any = {"Code": "ValidationError", "Message": f"Stack with id {StackName} does not exist"}
            raise ClientError({"Error": error}, "GetTemplate")
        return {"TemplateBody": _bucket("one")}


def _bucket(name: str) -> dict[str, Any]:
    return {"Resources": {"bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name}}}}


def test_deployed_templates_are_compared_with_written_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("boto3.Session.client", lambda *_: CloudFormation())
    monkeypatch.setattr("sys.argv", ["replacements", "dev", "--app", str(tmp_path)])
    for name, status in (("one", 0), ("other", 1)):
        (tmp_path / "masscomm-dev-data.template.json").write_text(json.dumps(_bucket(name)))
        assert replacements.main() == status
    assert capsys.readouterr().out.splitlines() == [
        "1 deployed stacks, 0 findings",
        "masscomm-dev-data: AWS::S3::Bucket bucket would be replaced: BucketName",
        "1 deployed stacks, 1 findings",
    ]
