"""What everything else stands in: the key and the network."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.key import data_key
from infra.cdk.resources.network import Network
from infra.cdk.resources.registry import image_repository


class NetworkStack(Stack):
    """key, network with its security groups, and the repository of the image that the rest needs."""

    def __init__(self, scope: Construct, *, environment: Environment) -> None:
        super().__init__(scope, f"{environment.prefix}-network", env={"region": environment.region})
        self.key = data_key(self, environment=environment)
        self.registry_image = image_repository(self, environment=environment, key=self.key)
        self.network = Network(self, environment=environment, key=self.key)
