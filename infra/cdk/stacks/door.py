"""The door for incoming webhooks, a stack of its own: it stays open while the functions are deployed."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.parts import deployed
from infra.cdk.resources.door import Door
from infra.cdk.stacks.network import NetworkStack


class DoorStack(Stack):
    """The stack of the door.

    Attributes:
        door: The queue of incoming webhooks, and the API that writes to it.
    """

    def __init__(self, scope: Construct, *, environment: Environment, base: NetworkStack) -> None:
        super().__init__(scope, f"{environment.prefix}-door", env={"region": environment.region})
        (receiver,) = (entry for entry in deployed(environment) if entry.queue)
        self.door = Door(self, environment=environment, key=base.key, receiver=receiver)
