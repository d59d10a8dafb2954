"""Servers that stand already, as the stacks see them: what they would make otherwise, without a permission to grant."""

from collections.abc import Collection, Iterable
from typing import Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from infra.cdk.config import Environment

NONE = "none"
_Mapping = lambda_.CfnEventSourceMapping


class GivenKafka:
    """Brokers that let in whoever reaches them: Lambda's self-managed Kafka. As infra.cdk.resources.kafka's."""

    authentication = NONE

    def __init__(self, *, environment: Environment, bootstrap_servers: str, vpc: ec2.IVpc, group: ec2.ISecurityGroup):
        self.name = environment.prefix
        self.bootstrap_servers = bootstrap_servers
        self._vpc, self._group = vpc, group

    def event_source(self, group: str) -> dict[str, Any]:
        """How a mapping names the source. group: its consumer group."""
        places = [("VPC_SECURITY_GROUP", f"security_group:{self._group.security_group_id}")]
        places += [("VPC_SUBNET", f"subnet:{subnet.subnet_id}") for subnet in self._vpc.isolated_subnets]
        return {
            "self_managed_event_source": _Mapping.SelfManagedEventSourceProperty(
                endpoints=_Mapping.EndpointsProperty(kafka_bootstrap_servers=self.bootstrap_servers.split(","))
            ),
            "self_managed_kafka_event_source_config": _Mapping.SelfManagedKafkaEventSourceConfigProperty(
                consumer_group_id=group
            ),
            "source_access_configurations": [
                _Mapping.SourceAccessConfigurationProperty(type=kind, uri=uri) for kind, uri in places
            ],
        }

    def poller_statements(self) -> list[iam.PolicyStatement]:
        """What a function's role needs for Lambda to find the brokers."""
        return []

    def statements(self, **_wanted: Collection[str]) -> list[iam.PolicyStatement]:
        """What a role may do with topics and groups."""
        return []


class GivenDirectory:
    """An OpenSearch that asks nobody who they are. As infra.cdk.resources.directory's."""

    authentication = NONE

    def __init__(self, *, environment: Environment, url: str) -> None:
        self.name = f"{environment.prefix}-directory"
        self.url = url

    def statements(self, _requests: Iterable[str]) -> list[iam.PolicyStatement]:
        """A role's requests."""
        return []


class GivenDatabase:
    """A PostgreSQL that knows its users by the address alone (a password file, a trusted socket)."""

    authentication = NONE

    def __init__(self, *, url: str) -> None:
        self._url = url

    def url(self, _user: str) -> str:
        """The address, whoever asks."""
        return self._url

    def statements(self, _scope: object, _user: str) -> list[iam.PolicyStatement]:
        """What lets a role sign in."""
        return []
