"""The stack that provisions the servers before functions, jobs and connectors use them, and the task of operators."""

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import (
    AUDIT,
    CONNECT_OFFSETS_TOPIC,
    DECISIONS,
    LEDGER,
    OPERATOR,
    OPERATOR_REQUESTS,
    WAITING,
    WITH_STATE,
)
from infra.cdk.resources.event_sources import consumer_group
from infra.cdk.resources.findings import explain
from infra.cdk.resources.registry_access import RegistryAccess
from infra.cdk.resources.task import VpcTask, read_secrets, task_role
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.grants import CDC_CONSUMER, cdc_groups, of_generations, replayed_topics
from infra.cdk.stacks.network import NetworkStack
from infra.cdk.stacks.provisioner import provisioner_task
from infra.cdk.stacks.registry import RegistryStack
from masscomm.kafka.topic_reading import OPERATIONS_GROUP
from masscomm.kafka.topics import DEAD_LETTER_STATUS, cdc_topics, chain_topics
from masscomm.operations.dead_letter_replays import transactional_id

_COLONS = ArnFormat.COLON_RESOURCE_NAME
# The tables of operators' commands, and the operations of cli/tracing/tables.py and of the audit log on them.
_TABLES = {LEDGER: ("Query",), DECISIONS: ("GetItem",), WAITING: ("Scan",), AUDIT: ("PutItem", "Query")}


class ProvisioningStack(Stack):
    """The stack of the tasks in the VPC.

    Attributes:
        provisioner: The task of infra.provision.
        operator: The task of operators' commands.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        base: NetworkStack,
        data: DataStack,
        registry: RegistryStack,
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-provisioning", env={"region": environment.region})
        self.add_stack_dependency(registry, "infra.provision registers schemas")
        self._environment, self._base, self._data = environment, base, data
        self.provisioner = self._provisioner(registry)
        self.provisioner.run()
        self.operator = self._operator()
        for name, task in (("operators", self.operator), ("provisioners", self.provisioner)):
            self._starters(name, task)

    def _provisioner(self, registry: RegistryStack) -> VpcTask:
        environment, base, data = self._environment, self._base, self._data
        statements = [*data.metrics.secret_statements(self), *registry.statements]
        captured: dict[str, str] = {}
        if environment.has("cdc"):
            # It checks that the connector could capture the tables.
            statements += self._read_monolith()
            captured = {"MONOLITH_SECRET": environment.monolith.secret_name, "CAPTURE": environment.global_prefix}
        policy = iam.Policy(self, "provisioner-secrets", roles=[base.provisioner], statements=statements)
        if environment.has("cdc"):
            name = environment.monolith.secret_name
            explain(
                policy,
                "AWS ends the ARN of a secret with six characters",
                f"IAM5[Resource::arn:aws:secretsmanager:{self.region}:<AWS::AccountId>:secret:{name}-??????]",
            )
        return provisioner_task(
            self,
            "provisioner",
            environment=environment,
            base=base,
            policy=policy,
            variables={
                **registry.variables,
                "OPENSEARCH_URL": data.directory.url,
                "OPENSEARCH_AUTHENTICATION": data.directory.authentication,
                "ROLES": self.format_arn(
                    service="iam",
                    region="",
                    resource=f"role{environment.platform.role_path}{environment.global_prefix}-",
                    arn_format=ArnFormat.NO_RESOURCE_NAME,
                ),
                "CDC_GENERATION": environment.generation,
                "METRICS_DATABASE_URL": data.metrics.administrator_address(data.metrics.name),
                "METRICS_DATABASE_SECRET": data.metrics.administrator_secret,
                **({} if environment.directory_state is None else {WITH_STATE: "1"}),
                **captured,
            },
        )

    def _read_monolith(self) -> list[iam.PolicyStatement]:
        config = self._environment.monolith
        named = self.format_arn(
            service="secretsmanager",
            resource="secret",
            # Secrets Manager adds six characters: https://docs.aws.amazon.com/secretsmanager/latest/userguide/
            # whats-in-a-secret.html
            resource_name=f"{config.secret_name}-??????",
            arn_format=_COLONS,
        )
        return read_secrets(self, named, key=config.key_arn)

    def _operator(self) -> VpcTask:
        """Return the task for `dead-letters`, `trace`, `audit`, `suppressions` and `directory`.

        It has no right to API keys: `masscomm keys` would print a new key into the log.
        """
        environment, base, data = self._environment, self._base, self._data
        role = task_role(
            self, "operator-role", environment=environment, name=OPERATOR, description="commands of operators"
        )
        registry = RegistryAccess(url=environment.registry_url, existing=environment.existing.registry)
        topics = [topic.name for topic in (*chain_topics(), *cdc_topics(environment.generation))]
        tables = {name: data.tables[name] for name in _TABLES}
        for statement in (
            *data.kafka.statements(
                reads=[*topics, CONNECT_OFFSETS_TOPIC],
                writes=[*replayed_topics(environment), DEAD_LETTER_STATUS],
                asks=[OPERATIONS_GROUP, *cdc_groups(environment)],
                transacts=[transactional_id(DEAD_LETTER_STATUS)],
            ),
            *data.directory.statements(of_generations(OPERATOR_REQUESTS, environment)),
            *registry.statements(self),
            *(
                iam.PolicyStatement(
                    actions=[f"dynamodb:{action}" for action in _TABLES[name]], resources=[table.table_arn]
                )
                for name, table in tables.items()
            ),
            iam.PolicyStatement(
                actions=["kms:Decrypt", "kms:DescribeKey"],
                resources=[base.key.key_arn],
                conditions={"StringEquals": {"kms:ViaService": f"dynamodb.{self.region}.amazonaws.com"}},
            ),
        ):
            role.add_to_policy(statement)
        return VpcTask(
            self,
            OPERATOR,
            environment=environment,
            key=base.key,
            place=base.network.place("operators"),
            role=role,
            variables={
                "KAFKA_BOOTSTRAP_SERVERS": data.kafka.bootstrap_servers,
                "KAFKA_AUTHENTICATION": data.kafka.authentication,
                **registry.variables,
                "OPENSEARCH_URL": data.directory.url,
                "OPENSEARCH_AUTHENTICATION": data.directory.authentication,
                "CDC_GENERATION": environment.generation,
                "CDC_CONSUMER_GROUP": consumer_group(f"masscomm.{CDC_CONSUMER}", "{topic}"),
                **{f"{name.upper()}_TABLE": table.table_name for name, table in tables.items()},
            },
            command=["dead-letters", "list", "--deployed", environment.name],
        )

    def _starters(self, name: str, task: VpcTask) -> None:
        """Create a policy for people who start the task; it is attached to their roles."""
        parameter, started = task.store(), task.start_permissions()
        policy = iam.ManagedPolicy(
            self,
            name,
            managed_policy_name=f"{self._environment.global_prefix}-{name}",
            description=f"starts the task {task.definition.family} and follows its log",
            statements=[
                *started.statements,
                iam.PolicyStatement(actions=["ssm:GetParameter"], resources=[parameter.parameter_arn]),
            ],
        )
        explain(policy, "people start the current revision; ids of tasks are not known", *started.findings)
