"""Everything that holds data where the servers stand already: the tables and the archive, beside what is given."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.config import Environment, ServerSettings
from infra.cdk.resources.buckets import Buckets
from infra.cdk.resources.given import GivenDatabase, GivenDirectory, GivenKafka
from infra.cdk.resources.tables import Tables
from infra.cdk.stacks.network import NetworkStack


class GivenDataStack(Stack):
    """As DataStack, on Kafka, OpenSearch and PostgreSQL that somebody else runs."""

    def __init__(
        self, scope: Construct, *, environment: Environment, base: NetworkStack, servers: ServerSettings
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-data", env={"region": environment.region})
        network = base.network
        self.kafka = GivenKafka(
            environment=environment,
            bootstrap_servers=servers.kafka,
            vpc=network.vpc,
            group=network.groups["kafka"],
        )
        self.directory = GivenDirectory(environment=environment, url=servers.directory_url)
        self.database = GivenDatabase(url=servers.database_url)
        self.tables = Tables(self, environment=environment, key=base.key).tables
        self.buckets = Buckets(self, environment=environment, key=base.key)
