"""Creates tasks in the VPC: commands of `masscomm` in its own image, which a deployment or an operator starts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import ArnFormat, CustomResource, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.images import APPLICATION, Image, own_image, pinned, repository
from infra.cdk.resources.findings import explain
from infra.cdk.resources.handler import Handler
from infra.cdk.resources.logs import log_group
from infra.cdk.resources.network import Place

# The smallest size whose memory holds a page of records: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/
# fargate-tasks-services.html
_CPU, _MEMORY_MB = 512, 1024
_MODULE = "run_task"
# The time of one invocation of the function that waits for a task, which then invokes itself again.
_INVOCATION_S = 900
_COLONS = ArnFormat.COLON_RESOURCE_NAME


def task_role(scope: Construct, id: str, *, environment: Environment, name: str, description: str) -> iam.Role:
    """Return a role for tasks of this account.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
    """
    stack = Stack.of(scope)
    return iam.Role(
        scope,
        id,
        role_name=f"{environment.global_prefix}-{name}",
        description=description,
        assumed_by=iam.ServicePrincipal(
            "ecs-tasks.amazonaws.com",
            conditions={
                "StringEquals": {"aws:SourceAccount": stack.account},
                "ArnLike": {"aws:SourceArn": stack.format_arn(service="ecs", resource="*", arn_format=_COLONS)},
            },
        ),
    )


def container_image(scope: Construct, environment: Environment, image: Image) -> ecs.ContainerImage:
    """Return an image that `masscomm images` has copied to the repository which `cdk bootstrap` makes."""
    stack = Stack.of(scope)
    name = repository(environment, stack.account, stack.region)
    found = ecr.Repository.from_repository_name(scope, "images", name)
    return ecs.ContainerImage.from_ecr_repository(found, pinned(image, environment).tag)


def task_definition(
    scope: Construct,
    *,
    family: str,
    cpu: int,
    memory_mb: int,
    role: iam.IRole | None = None,
    volume_gb: int | None = None,
) -> ecs.FargateTaskDefinition:
    """Return a task on arm64 without containers, whose execution role reads images.

    Args:
        family: The name.
        cpu: The CPU units; 1024 units are one vCPU.
        memory_mb: The memory in MB.
        role: The role of its programs; None: one is made.
        volume_gb: The size of its file system in GB; None: 20.
    """
    definition = ecs.FargateTaskDefinition(
        scope,
        "task",
        family=family,
        cpu=cpu,
        memory_limit_mib=memory_mb,
        ephemeral_storage_gib=volume_gb,
        task_role=role,
        runtime_platform=ecs.RuntimePlatform(
            cpu_architecture=ecs.CpuArchitecture.ARM64, operating_system_family=ecs.OperatingSystemFamily.LINUX
        ),
    )
    explain(
        definition.obtain_execution_role(),
        "ecr:GetAuthorizationToken is for the whole account and supports no resource",
        "IAM5[Resource::*]",
    )
    return definition


def read_secrets(scope: Construct, *arns: str, key: str | None) -> list[iam.PolicyStatement]:
    """Return the permissions to read secrets that a key encrypts; without one, AWS' own key for secrets does."""
    statements = [iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=list(arns))]
    if key is not None:
        statements.append(
            iam.PolicyStatement(
                actions=["kms:Decrypt"],
                resources=[key],
                conditions={
                    "StringEquals": {"kms:ViaService": f"secretsmanager.{Stack.of(scope).region}.amazonaws.com"}
                },
            )
        )
    return statements


@dataclass(frozen=True, kw_only=True)
class Started:
    """The permissions to start a task and to follow it."""

    statements: list[iam.PolicyStatement]
    # The findings of AwsSolutions about them.
    findings: tuple[str, ...]


class VpcTask(Construct):
    """A Fargate task on arm64 with one container, and the Systems Manager parameter /PREFIX/tasks/ID with which
    infra.tasks starts it.

    Attributes:
        definition: The task definition.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        key: kms.IKey,
        place: Place,
        role: iam.IRole,
        variables: Mapping[str, str],
        command: list[str],
    ) -> None:
        super().__init__(scope, id)
        self._environment, self._key, self._role = environment, key, role
        self._log = log_group(self, "log", environment=environment, key=key)
        self.definition = task_definition(
            self,
            family=f"{environment.prefix}-{id}",
            cpu=_CPU,
            memory_mb=_MEMORY_MB,
            role=role.without_policy_updates() if isinstance(role, iam.Role) else role,
        )
        self.definition.add_container(
            "masscomm",
            image=container_image(self, environment, own_image()),
            entry_point=["python", "-m", "cli.main"],
            command=command,
            working_directory=APPLICATION,
            user="65534",  # nobody; only /tmp is writable.
            environment={
                "AWS_REGION": environment.region,
                "MASSCOMM_TASK": environment.name,
                "MASSCOMM_STATE": "/tmp/masscomm",  # noqa: S108 - the task's own file system
                "PYTHONPATH": APPLICATION,
                "PYTHONUNBUFFERED": "1",
                **variables,
            },
            logging=ecs.LogDriver.aws_logs(stream_prefix=id, log_group=self._log),
        )
        explain(self.definition, "the variables hold addresses and names; credentials are read from secrets", "ECS2")
        subnets = place.subnet_ids
        self._request = json.dumps(
            {
                # https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_RunTask.html
                "request": {
                    "cluster": environment.prefix,
                    "launchType": "FARGATE",
                    "taskDefinition": self.definition.task_definition_arn,
                    "networkConfiguration": {
                        "awsvpcConfiguration": {
                            "subnets": subnets,
                            "securityGroups": [place.group.security_group_id],
                            "assignPublicIp": "DISABLED",
                        }
                    },
                },
                "log": {"group": self._log.log_group_name, "prefix": f"{id}/masscomm"},
            }
        )

    def store(self) -> ssm.StringParameter:
        """Create the parameter for infra.tasks, and return it."""
        return ssm.StringParameter(
            self,
            "parameter",
            parameter_name=f"/{self._environment.prefix}/tasks/{self.node.id}",
            description=f"what infra.tasks starts as {self.node.id}",
            string_value=self._request,
        )

    def run(self) -> CustomResource:
        """Run the task when the stack is deployed, and again for each other task definition: for another image, which
        contains schemas/, and other variables, such as the generation.
        """
        stack = Stack.of(self)
        prefix = self._environment.prefix
        started = self.start_permissions()
        name = f"{prefix}-{_MODULE.replace('_', '-')}-{stack.stack_name.removeprefix(f'{prefix}-')}"
        itself = stack.format_arn(service="lambda", resource="function", resource_name=name, arn_format=_COLONS)
        handler = Handler(
            stack,
            module=_MODULE,
            name=name.removeprefix(f"{prefix}-"),
            environment=self._environment,
            key=self._key,
            timeout_s=_INVOCATION_S,
            variables={},
            statements=[
                *started.statements,
                iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[itself]),
            ],
        )
        explain(
            handler,
            "a deployment that is rolled back starts the former revision; ids of tasks are not known",
            *started.findings,
        )
        resource = CustomResource(
            self,
            "run",
            resource_type="Custom::Task",
            service_token=handler.function.function_arn,
            properties={"Task": self._request},
        )
        resource.node.add_dependency(handler.role, self._role, self.definition)
        return resource

    def start_permissions(self) -> Started:
        """Return the permissions to start the task, to follow it and to stop it.

        https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerservice.html
        """
        stack, prefix = Stack.of(self), self._environment.prefix
        family = stack.format_arn(service="ecs", resource="task-definition", resource_name=f"{prefix}-{self.node.id}:*")
        tasks = stack.format_arn(service="ecs", resource="task", resource_name=f"{prefix}/*")
        cluster = stack.format_arn(service="ecs", resource="cluster", resource_name=prefix)
        roles = [self._role.role_arn, self.definition.obtain_execution_role().role_arn]
        in_cluster = {"ArnEquals": {"ecs:cluster": cluster}}
        statements = [
            iam.PolicyStatement(actions=["ecs:RunTask"], resources=[family], conditions=in_cluster),
            iam.PolicyStatement(
                actions=["ecs:DescribeTasks", "ecs:StopTask"], resources=[tasks], conditions=in_cluster
            ),
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=roles,
                conditions={"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}},
            ),
            iam.PolicyStatement(actions=["logs:GetLogEvents"], resources=[self._log.log_group_arn]),
        ]
        where = f"arn:aws:ecs:{stack.region}:<AWS::AccountId>"
        findings = (
            f"IAM5[Resource::{where}:task-definition/{prefix}-{self.node.id}:*]",
            f"IAM5[Resource::{where}:task/{prefix}/*]",
        )
        return Started(statements=statements, findings=findings)
