"""Refuses a deployment that would replace what others hold: `python -m infra.replacements ENVIRONMENT [--app FOLDER]`.

The command compares the templates of the deployed stacks with those that `make synth` wrote to FOLDER (by default
out/cdk/ENVIRONMENT). A finding names a connector, a topic, a server or a table that CloudFormation would replace, or an
exported value that changes or vanishes while another stack imports it: CloudFormation would refuse that in the middle
of the deployment. Further findings name the topics whose records would have no consumer (infra/unconsumed_records.py).
It only reads; to count records, it needs an API key with the scope `operate` in MASSCOMM_API_KEY. The exit status is 1
if there is a finding.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

from infra.cdk.environments import add_folder_option, environment_of
from infra.destroy import STACKS
from infra.smoke import API_KEY, SmokeError, deployed_api
from infra.unconsumed_records import UnknownLagError, lags_of, unconsumed_records

type Template = Mapping[str, Any]

# Type → the properties whose change replaces a resource ("Update requires: Replacement"), from its page below
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-template-resource-type-ref.html.
CREATE_ONLY: dict[str, tuple[str, ...]] = {
    "AWS::KafkaConnect::Connector": (
        *("ConnectorDescription", "ConnectorName", "KafkaCluster", "KafkaClusterClientAuthentication"),
        *("KafkaClusterEncryptionInTransit", "KafkaConnectVersion", "LogDelivery", "NetworkType", "Plugins"),
        *("ServiceExecutionRoleArn", "WorkerConfiguration"),
    ),
    "AWS::KafkaConnect::CustomPlugin": ("ContentType", "Description", "Location", "Name"),
    "AWS::KafkaConnect::WorkerConfiguration": ("Description", "Name", "PropertiesFileContent"),
    "AWS::MSK::Topic": ("ClusterArn", "ReplicationFactor", "TopicName"),
    "AWS::MSK::Cluster": (
        *("BrokerNodeGroupInfo/BrokerAZDistribution", "BrokerNodeGroupInfo/ClientSubnets"),
        *("BrokerNodeGroupInfo/SecurityGroups", "ClusterName", "EncryptionInfo/EncryptionAtRest"),
        "EncryptionInfo/EncryptionInTransit/InCluster",
    ),
    "AWS::RDS::DBInstance": (
        *("BackupTarget", "CharacterSetName", "CustomIAMInstanceProfile", "DBClusterIdentifier"),
        *("DBInstanceIdentifier", "DBName", "DBSubnetGroupName", "DBSystemId", "KmsKeyId", "MasterUsername"),
        *("NcharCharacterSetName", "SourceRegion", "StorageEncrypted", "Timezone"),
    ),
    "AWS::RDS::DBProxy": (
        *("DBProxyName", "EndpointNetworkType", "EngineFamily", "TargetConnectionNetworkType", "VpcSubnetIds"),
    ),
    "AWS::OpenSearchService::Domain": ("DomainName", "EngineMode"),
    "AWS::DynamoDB::Table": ("ImportSourceSpecification", "TableName"),
    "AWS::S3::Bucket": ("BucketName", "BucketNamePrefix", "BucketNamespace"),
    "AWS::ApiGateway::DomainName": ("DomainName",),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": ("Name", "Scheme", "Type"),
}
# Types of which a replacement matters only by what refers to them.
_PARTS = ("AWS::KafkaConnect::CustomPlugin", "AWS::KafkaConnect::WorkerConfiguration")


def findings(deployed: Mapping[str, Template], new: Mapping[str, Template]) -> list[str]:
    """Return what must not happen in a deployment, one line each.

    Args:
        deployed: The templates of the deployed stacks, by the names of the stacks.
        new: The templates of the deployment; those of further stacks are new stacks, which replace nothing.
    """
    found = []
    for stack, before in deployed.items():
        after = new.get(stack, {"Resources": {}})
        replaced = _replaced(before, after)
        found += [
            f"{stack}: {kind} {id} would be replaced: {', '.join(names)}"
            for id, names in replaced.items()
            if (kind := before["Resources"][id]["Type"]) not in _PARTS
        ]
        found += [
            f"{stack}: the exported value {name} {how}, and {', '.join(importers)} imports it"
            for name, how in _changed_exports(before, after, replaced.keys())
            if (importers := [other for other, each in deployed.items() if name in _imports(each)])
        ]
    return found


def _replaced(before: Template, after: Template) -> dict[str, list[str]]:
    """Return the changed properties of each resource that would be replaced, by its logical id. A new value of a
    property can be that of a resource that is itself replaced.
    """
    kept = {
        id: (resource, after["Resources"][id])
        for id, resource in before["Resources"].items()
        if id in after["Resources"] and resource["Type"] in CREATE_ONLY
    }
    replaced: dict[str, list[str]] = {}
    while True:
        found = {
            id: names
            for id, (old, new) in kept.items()
            if (
                names := [
                    name
                    for name in CREATE_ONLY[old["Type"]]
                    if _at(old, name) != _at(new, name) or _references(_at(new, name)) & replaced.keys()
                ]
            )
            or (names := ["Type"] if old["Type"] != new["Type"] else [])
        }
        if found == replaced:
            return replaced
        replaced = found


def _at(resource: Template, path: str) -> Any:
    """Return the property at a path such as EncryptionInfo/EncryptionAtRest; None if there is none."""
    value: Any = resource.get("Properties", {})
    for name in path.split("/"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _changed_exports(before: Template, after: Template, replaced: Any) -> Iterator[tuple[str, str]]:
    def exports(template: Template) -> dict[str, Any]:
        outputs = template.get("Outputs", {}).values()
        return {each["Export"]["Name"]: each["Value"] for each in outputs if "Export" in each}

    remaining = exports(after)
    for name, value in exports(before).items():
        if name not in remaining:
            yield name, "vanishes"
        elif remaining[name] != value or _references(value) & replaced:
            yield name, "changes"


def _references(value: Any) -> set[str]:
    """Return the logical ids to which a value refers."""
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), _]}:
            return {name}
        case Mapping():
            return set().union(*map(_references, value.values()))
        case list():
            return set().union(*map(_references, value))
        case _:
            return set()


def _imports(value: Any) -> set[str]:
    """Return the names of the exported values that a template imports."""
    match value:
        case {"Fn::ImportValue": str(name)}:
            return {name}
        case Mapping():
            return set().union(*map(_imports, value.values()))
        case list():
            return set().union(*map(_imports, value))
        case _:
            return set()


def deployed_templates(cloudformation: Any, prefix: str) -> dict[str, Template]:
    """Return the templates of an environment's deployed stacks, by the names of the stacks."""
    found = {}
    for each in STACKS:
        try:
            found[f"{prefix}-{each}"] = cloudformation.get_template(StackName=f"{prefix}-{each}")["TemplateBody"]
        except ClientError as error:
            # A stack that is not deployed is a ValidationError, as the page says:
            # https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_GetTemplate.html
            if error.response["Error"]["Code"] != "ValidationError":
                raise
    return found


def written_templates(folder: Path) -> dict[str, Template]:
    """Return the templates of a synthesised environment, by the names of the stacks."""
    suffix = ".template.json"
    return {path.name.removesuffix(suffix): json.loads(path.read_text()) for path in folder.glob(f"*{suffix}")}


def main() -> int:
    """Run the command and return its exit status: 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m infra.replacements", description=__doc__)
    parser.add_argument("environment")
    parser.add_argument("--app", type=Path, help="the folder with the synthesised templates")
    add_folder_option(parser)
    chosen = parser.parse_args()
    try:
        environment = environment_of(chosen.environment, chosen.folder)
    except ValueError as error:
        parser.error(str(error))
    folder = chosen.app or Path("out/cdk") / environment.name
    new = written_templates(folder)
    if not new:
        parser.error(f"{folder} has no templates: make synth ENVIRONMENTS={environment.name}")
    session: Any = boto3.Session(region_name=environment.region)
    deployed = deployed_templates(session.client("cloudformation"), environment.prefix)

    def lags() -> Mapping[str, int]:
        if not (key := os.environ.get(API_KEY)):
            raise UnknownLagError(f"{API_KEY} has no API key")
        try:
            return lags_of(deployed_api(session.client, environment).url, key)
        except SmokeError as error:
            raise UnknownLagError(str(error)) from error

    found = [*findings(deployed, new), *unconsumed_records(deployed, new, lags)]
    for line in found:
        print(line)  # noqa: T201
    print(f"{len(deployed)} deployed stacks, {len(found)} findings")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
