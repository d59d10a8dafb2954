"""The stores of a deployment on external servers: DynamoDB tables and the archive."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.config import Environment, ExternalServers
from infra.cdk.resources.audit_copy import audit_copy
from infra.cdk.resources.buckets import Buckets
from infra.cdk.resources.external_servers import ExternalDatabase, ExternalDirectory, ExternalKafka
from infra.cdk.resources.tables import Tables
from infra.cdk.stacks.network import NetworkStack


class ExternalDataStack(Stack):
    """The stack of the stores on an external Kafka, OpenSearch and PostgreSQL, with the interface of DataStack."""

    def __init__(
        self, scope: Construct, *, environment: Environment, base: NetworkStack, servers: ExternalServers
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-data", env={"region": environment.region})
        network = base.network
        self.kafka = ExternalKafka(
            environment=environment,
            bootstrap_servers=servers.kafka,
            vpc=network.vpc,
            group=network.groups["kafka"],
        )
        self.directory = ExternalDirectory(environment=environment, url=servers.directory_url)
        self.database = ExternalDatabase(url=servers.database_url)
        self.tables = Tables(self, environment=environment, key=base.key).tables
        self.buckets = Buckets(self, environment=environment, key=base.key)
        self.audit_copy = audit_copy(self, environment, base.key, self.tables, self.buckets)
