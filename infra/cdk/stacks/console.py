"""The stack of the web console."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.config import ConsoleConfig, Environment, PeopleConfig
from infra.cdk.resources.buckets import access_log_bucket, console_bucket
from infra.cdk.resources.console import Console, ConsoleFiles
from infra.cdk.resources.logs import log_group
from infra.cdk.stacks.api import ApiStack
from infra.cdk.stacks.network import NetworkStack


class ConsoleStack(Stack):
    """The stack of the console: its files, and the distribution that serves them and the API at one address.

    Attributes:
        files: The bucket of the console's files.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        base: NetworkStack,
        console: ConsoleConfig,
        people: PeopleConfig,
        api: ApiStack,
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-console", env={"region": environment.region})
        access_log = access_log_bucket(self, environment=environment, key=base.key)
        self.files = console_bucket(self, environment=environment, key=base.key, access_log=access_log)
        Console(
            self,
            environment=environment,
            console=console,
            issuer=people.issuer,
            files=self.files,
            access_log=access_log,
            api=api.rest,
        )
        ConsoleFiles(
            self,
            environment=environment,
            bucket=self.files,
            log=log_group(self, "deployment-log", environment=environment, key=base.key),
            settings={
                "issuer": people.issuer,
                "client_id": console.client_id,
                "scope": console.scope,
                "redirect_uri": f"https://{console.domain}/",
                "roles_claim": people.roles_claim,
                "clubs_claim": people.clubs_claim,
            },
        )
