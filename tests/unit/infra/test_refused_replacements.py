"""A deployment that would replace a connector, a topic, a server or an imported value is refused before it begins, and
so is one that would leave records without a consumer.
"""

import copy
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from infra import replacements
from infra.replacements import CREATE_ONLY, findings
from infra.unconsumed_records import UnknownLagError, lags_of, unconsumed_records
from masscomm.domain.lanes import BROADCASTS
from masscomm.kafka.topics import chain_topics, lane_of
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


# --- records without a consumer ---

LAST = [topic.name for topic in chain_topics() if lane_of(topic.name) is BROADCASTS[-1]]
EMPTY = dict.fromkeys(LAST, 0)


def _queues(before: dict[str, Any], *, sent: int, consumed: int) -> dict[str, Any]:
    """Return the templates with so many broadcast queues that functions send to, and that have mappings."""
    after = copy.deepcopy(before)
    for template in after.values():
        resources = template["Resources"]
        for id, each in list(resources.items()):
            properties = each.get("Properties", {})
            if variables := properties.get("Environment", {}).get("Variables"):
                variables |= {"BROADCAST_QUEUES": str(sent)} if "BROADCAST_QUEUES" in variables else {}
            is_mapping = each["Type"] == "AWS::Lambda::EventSourceMapping"
            if is_mapping and any(lane_of(topic) in BROADCASTS[consumed:] for topic in properties.get("Topics", ())):
                del resources[id]
    return after


def test_queue_that_gets_records_must_keep_its_mapping(before: dict[str, Any]) -> None:
    """The first deployment that lowers the number keeps the mappings; nothing needs to be empty for it."""
    assert unconsumed_records(before, _queues(before, sent=3, consumed=4), dict) == []
    found = unconsumed_records(before, _queues(before, sent=3, consumed=3), lambda: EMPTY)
    assert found == [
        f"{topic} would have no consumer while records are sent to it: set closing_queues" for topic in sorted(LAST)
    ]


def test_functions_of_the_first_version_use_every_queue(before: dict[str, Any]) -> None:
    """Version 0.1.0 has no variable BROADCAST_QUEUES."""
    earlier = json.loads(json.dumps(before).replace("BROADCAST_QUEUES", "OTHER"))
    assert len(unconsumed_records(earlier, _queues(before, sent=3, consumed=3), lambda: EMPTY)) == len(LAST)


def test_queue_with_records_must_keep_its_mapping(before: dict[str, Any]) -> None:
    """A record that moves on between two readings is seen by one of them."""
    closing, after = (_queues(before, sent=3, consumed=consumed) for consumed in (4, 3))
    moves = iter([EMPTY, *([EMPTY | {"delivery.bulk4": 7}] * (len(LAST) - 1))])
    assert unconsumed_records(closing, after, lambda: next(moves)) == [
        "delivery.bulk4 would have no consumer, and has 7 records"
    ]
    assert unconsumed_records(closing, after, lambda: EMPTY) == []


def test_queue_with_unknown_records_must_keep_its_mapping(before: dict[str, Any]) -> None:
    closing, after = (_queues(before, sent=3, consumed=consumed) for consumed in (4, 3))

    def refused() -> dict[str, int]:
        raise UnknownLagError("403")

    for lags in (refused, dict):
        found = unconsumed_records(closing, after, lags)
        assert [line.partition(",")[0] for line in found] == [f"{each} would have no consumer" for each in sorted(LAST)]


def test_records_are_counted_by_the_health_route(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        httpx.Response(200, json={"lag": [{"function": "a", "topic": "event", "records": each} for each in (3, 4)]}),
        httpx.Response(403),
    ]

    def get(url: str, *, headers: dict[str, str], timeout: float) -> httpx.Response:
        assert (url, headers) == ("https://api.club.example/v1/health", {"x-api-key": "k"})
        answer = answers.pop(0)
        answer.request = httpx.Request("GET", url)
        return answer

    monkeypatch.setattr(httpx, "get", get)
    assert lags_of("https://api.club.example", "k") == {"event": 7}
    with pytest.raises(UnknownLagError, match="403"):
        lags_of("https://api.club.example", "k")


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
