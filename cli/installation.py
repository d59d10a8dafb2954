"""The installation that an operator's command works on: the stack of this machine, or a deployed one.

With the option `--deployed`, a command runs as a task in the VPC of an environment, which has the same environment
variables as the functions (infra/cdk/stacks/provisioning.py). The task shows its output in its log, so that commands
that print secrets work on tables alone, from any host.
"""

import getpass
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from cli.client_log import KAFKA_LOGGER
from cli.deployed import is_task, resources_of, run_task
from masscomm import environment
from masscomm.aws.authentication import kafka_client_config
from masscomm.cdc.progress import OFFSETS_TOPIC, KafkaCdcProgress
from masscomm.directory.bulk_writes import connect, connect_from_environment
from masscomm.directory.client import OpenSearch
from masscomm.domain.audit import Action, Result, audit_entry
from masscomm.kafka.avro import HttpSchemaRegistry
from masscomm.kafka.registry_sign_in import SECRET_SETTING, RegistrySignIn
from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
from ops.provisioning import GENERATION

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from local.devstack.config import StackConfig

DeployedOption = Annotated[
    str | None,
    typer.Option("--deployed", metavar="ENVIRONMENT", help="Use a deployed environment: prod."),
]


@dataclass(frozen=True, kw_only=True)
class Installation:
    """The addresses and credentials of an installation."""

    kafka_bootstrap: str
    registry_url: str
    # The ARN of the secret with which clients sign in at the registry; empty: it needs no sign-in.
    registry_secret: str = ""
    generation: str
    # Further configuration of the Kafka client: authentication, and the logger.
    security: Mapping[str, Any] = field(default_factory=lambda: {"logger": KAFKA_LOGGER})
    logs: Path | None = None  # The folder of the functions' logs; None if the logs are elsewhere.
    # The endpoint and credentials for boto3; if empty, boto3 finds them itself.
    aws: Mapping[str, Any] = field(default_factory=dict)
    # The names of the DynamoDB tables, by their names in schemas/dynamodb.
    tables: Mapping[str, str] = field(default_factory=dict)
    # The consumer group of cdc_consumer.
    cdc_group: str = "masscomm.cdc_consumer"
    # The address of OpenSearch; if None, the environment variable OPENSEARCH_URL is read.
    opensearch_url: str | None = None

    @classmethod
    def here(cls) -> Self:
        """Return the stack of this machine. Raises NotRunningError if it does not run."""
        from local.devstack.handle import RunningStack

        return cls.local(RunningStack.here().config)

    @classmethod
    def local(cls, stack: "StackConfig") -> Self:
        """Return the installation of a stack on this machine."""
        from local.devstack.service import function_environment

        environment = function_environment(stack)
        return cls(
            kafka_bootstrap=stack.kafka_bootstrap,
            registry_url=stack.registry_url,
            opensearch_url=stack.opensearch_url,
            generation=GENERATION,
            logs=stack.state_dir / "logs",
            aws={
                "endpoint_url": environment["AWS_ENDPOINT_URL_DYNAMODB"],
                "aws_access_key_id": environment["AWS_ACCESS_KEY_ID"],
                "aws_secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
                "region_name": environment["AWS_DEFAULT_REGION"],
            },
        )

    @classmethod
    def deployed(cls) -> Self:
        """Return the installation that the environment variables describe.

        Raises:
            Stop: A variable is missing; the message names it.
        """
        return cls(
            kafka_bootstrap=environment.required("KAFKA_BOOTSTRAP_SERVERS"),
            registry_url=environment.required("SCHEMA_REGISTRY_URL"),
            registry_secret=os.environ.get(SECRET_SETTING, ""),
            generation=environment.required("CDC_GENERATION"),
            security={**kafka_client_config(), "logger": KAFKA_LOGGER},
            cdc_group=environment.required("CDC_CONSUMER_GROUP"),
            tables={
                name: os.environ.get(f"{name.upper()}_TABLE", name)
                for name in ("delivery_ledger", "decisions", "waiting", "api_keys", "audit_log")
            },
        )

    @classmethod
    def of_tables(cls, prefix: str, **aws: Any) -> Self:
        """Return the installation of a deployed environment for a command that uses only DynamoDB, which any host
        reaches.

        Args:
            prefix: The prefix of the names of the environment's resources.
            aws: Arguments of boto3's client.
        """
        names = ("api_keys", "audit_log")
        tables = {name: f"{prefix}-{name}" for name in names}
        return cls(kafka_bootstrap="", registry_url="", generation="", tables=tables, aws=aws)

    def table(self, name: str) -> str:
        """Return the name of a DynamoDB table in this installation."""
        return self.tables.get(name, name)

    def opensearch(self) -> OpenSearch:
        """Return an OpenSearch client.

        Raises:
            Stop: OPENSEARCH_URL of a deployed installation is missing.
        """
        if self.opensearch_url is None:
            return connect_from_environment()
        return connect(self.opensearch_url)

    def cdc_progress(self, generation: str) -> KafkaCdcProgress:
        """Return the progress of change data capture of a snapshot generation."""
        return KafkaCdcProgress(
            self.kafka_bootstrap,
            generation=generation,
            group=self.cdc_group,
            offsets_topic=OFFSETS_TOPIC,
            **self.security,
        )

    def registry(self) -> HttpSchemaRegistry:
        """Return a client of the schema registry."""
        return HttpSchemaRegistry(self.registry_url, sign_in=RegistrySignIn.with_secret(self.registry_secret))

    def dynamodb(self) -> "DynamoDBClient":
        """Return a DynamoDB client that connects at its first call."""
        import boto3

        client: DynamoDBClient = boto3.client("dynamodb", **self.aws)
        return client

    def audit_log(self) -> DynamoDbAuditLog:
        return DynamoDbAuditLog(table=self.table(DynamoDbAuditLog.TABLE), client=self.dynamodb())

    def audit(
        self,
        action: Action,
        *,
        subject: str,
        clubs: Iterable[int | None] = (None,),
        result: Result = Result.OK,
        detail: str = "",
    ) -> None:
        """Record an action of the user of this command in the audit log, for each of the clubs (tenants); None stands
        for every club.
        """
        for club_id in clubs:
            self.audit_log().record(
                audit_entry(
                    action,
                    club_id=club_id,
                    at_ms=time.time_ns() // 1_000_000,
                    principal=f"operator:{operator_name()}",
                    subject=subject,
                    result=result,
                    detail=detail,
                )
            )


def operator_name() -> str:
    """Return the name of the person who runs the command: in a task, the ARN of the caller that started it."""
    return os.environ.get("MASSCOMM_OPERATOR") or getpass.getuser()


def installation(deployed: DeployedOption = None) -> Installation:
    """Return the installation that a command's options choose (see cli.options.given): this machine's stack, or the
    one of the task. Outside of the VPC, run the command as a task, and exit with its status.

    Raises:
        NotRunningError: No stack runs on this machine.
        Stop: A variable of the task is missing.
    """
    if deployed is None:
        return Installation.here()
    if not is_task():
        raise typer.Exit(run_task(deployed, None, "operator", sys.argv[1:]))
    return Installation.deployed()


def installation_of_tables(deployed: DeployedOption = None) -> Installation:
    """Return the installation for a command that uses only DynamoDB, which any host reaches.

    Raises:
        CommandError: There is no such environment.
    """
    if deployed is None:
        return Installation.here()
    resources = resources_of(deployed)
    return Installation.of_tables(resources["prefix"], region_name=resources["region"])
