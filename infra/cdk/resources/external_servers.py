"""External servers, with the same interfaces as the servers that DataStack creates. They need no IAM permissions."""

from collections.abc import Collection, Iterable
from typing import Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from infra.cdk.config import Environment

NONE = "none"
_Mapping = lambda_.CfnEventSourceMapping


class ExternalKafka:
    """Kafka brokers without authentication, which Lambda treats as a self-managed cluster.

    The class has the interface of infra.cdk.resources.kafka.KafkaCluster.
    """

    authentication = NONE

    def __init__(self, *, environment: Environment, bootstrap_servers: str, vpc: ec2.IVpc, group: ec2.ISecurityGroup):
        self.name = environment.prefix
        self.bootstrap_servers = bootstrap_servers
        self._vpc, self._group = vpc, group

    def event_source(self, group: str) -> dict[str, Any]:
        """Return the properties of an event source mapping that name its source and its consumer group."""
        accesses = [("VPC_SECURITY_GROUP", f"security_group:{self._group.security_group_id}")]
        accesses += [("VPC_SUBNET", f"subnet:{subnet.subnet_id}") for subnet in self._vpc.isolated_subnets]
        return {
            "self_managed_event_source": _Mapping.SelfManagedEventSourceProperty(
                endpoints=_Mapping.EndpointsProperty(kafka_bootstrap_servers=self.bootstrap_servers.split(","))
            ),
            "self_managed_kafka_event_source_config": _Mapping.SelfManagedKafkaEventSourceConfigProperty(
                consumer_group_id=group
            ),
            "source_access_configurations": [
                _Mapping.SourceAccessConfigurationProperty(type=kind, uri=uri) for kind, uri in accesses
            ],
        }

    def poller_statements(self) -> list[iam.PolicyStatement]:
        """Return no policy statements, because Lambda needs no permission to find external brokers."""
        return []

    def statements(self, **_wanted: Collection[str]) -> list[iam.PolicyStatement]:
        """Return no policy statements, because the brokers have no authentication."""
        return []


class ExternalDirectory:
    """An OpenSearch server without authentication, with the interface of infra.cdk.resources.directory.Directory."""

    authentication = NONE

    def __init__(self, *, environment: Environment, url: str) -> None:
        self.name = f"{environment.prefix}-directory"
        self.url = url

    def statements(self, _requests: Iterable[str]) -> list[iam.PolicyStatement]:
        """Return no policy statements, because the server has no authentication."""
        return []


class ExternalDatabase:
    """A PostgreSQL server whose URL has no password: clients have a password file, or the server trusts them."""

    authentication = NONE

    def __init__(self, *, url: str) -> None:
        self._url = url

    def url(self, _user: str) -> str:
        """Return the URL, which is the same for each user."""
        return self._url

    def statements(self, _scope: object, _user: str) -> list[iam.PolicyStatement]:
        """Return no policy statements, because connecting needs no IAM token."""
        return []
