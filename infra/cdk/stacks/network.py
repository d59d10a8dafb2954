"""The stack with the network, the encryption key, and what tasks need when they start."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.client_access import admit_clients
from infra.cdk.resources.key import data_key
from infra.cdk.resources.network import Network
from infra.cdk.resources.registry import database_user
from infra.cdk.resources.task import task_role


class NetworkStack(Stack):
    """The first stack of an environment.

    Attributes:
        key: The KMS key that encrypts all stored data.
        registry_user: The secret with the name and the password of the schema registry's database user; None: the
            registry is the organisation's.
        provisioner: The role of infra.provision, which administers the servers.
        network: The VPC with its security groups.
    """

    def __init__(self, scope: Construct, *, environment: Environment) -> None:
        super().__init__(scope, f"{environment.prefix}-network", env={"region": environment.region})
        self.key = data_key(self, environment=environment)
        self.registry_user = (
            database_user(self, environment=environment, key=self.key)
            if environment.existing.registry is None
            else None
        )
        # The role has a fixed name, because it is the administrator of the OpenSearch domain.
        self.provisioner = task_role(
            self,
            "provisioner",
            environment=environment,
            name="provisioner",
            description="creates indices, roles, tables and schemas",
        )
        self.network = Network(self, environment=environment, key=self.key)
        admit_clients(environment, self.network.groups)
