"""Creates one Lambda function with its log group, role and protection against cold starts."""

from collections.abc import Iterable, Mapping

from aws_cdk import Annotations, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.catalogue import FunctionEntry
from infra.cdk.code import function_code
from infra.cdk.config import Environment
from infra.cdk.profiles import Warmth
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group
from infra.cdk.resources.network import Place

_ALIAS = "live"
# The permissions with which Lambda creates and deletes the network interfaces of the function and of its event pollers.
# Only some of these actions support resource-level permissions; none can be limited to the interfaces of one function.
INTERFACE_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)


class MasscommFunction(Construct):
    """A function of functions.yaml in one lane: python3.13 on arm64. A function without a place is outside the VPC.

    Attributes:
        alias: The alias through which the function must be invoked.
        role: The execution role; `grant` adds policy statements to it.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        entry: FunctionEntry,
        environment: Environment,
        key: kms.IKey,
        place: Place | None,
        variables: Mapping[str, str],
        warmth: Warmth,
    ) -> None:
        super().__init__(scope, entry.name)
        self.entry = entry
        self.name = f"{environment.prefix}-{entry.name}"
        log = log_group(self, "log", environment=environment, key=key)
        # The name is fixed, because a role mapping inside the OpenSearch domain contains it before the role exists.
        self.role = iam.Role(
            self,
            "role",
            role_name=f"{environment.global_prefix}-{entry.name}",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        )
        self.grant(
            [
                iam.PolicyStatement(
                    actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.log_group_arn]
                ),
                *([] if place is None else [iam.PolicyStatement(actions=[*INTERFACE_ACTIONS], resources=["*"])]),
            ]
        )
        warm = environment.provisioned if warmth is Warmth.PROVISIONED else 0
        self.function = lambda_.Function(
            self,
            "function",
            function_name=self.name,
            description=f"{environment.prefix}: {entry.package}, lane {entry.lane.value}",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            code=function_code(entry.package),
            handler=entry.handler,
            timeout=Duration.seconds(entry.timeout_s),
            memory_size=entry.memory_mb,
            environment={
                "POWERTOOLS_SERVICE_NAME": entry.package,
                "MASSCOMM_ENVIRONMENT": environment.name,
                "TRACE_EXPORT": "xray",
                "TRACE_SAMPLE_RATIO": str(environment.trace_ratio),
                **variables,
                **entry.environment,
                "MASSCOMM_LANE": entry.lane.value,
            },
            role=self.role.without_policy_updates(),
            log_group=log,
            logging_format=lambda_.LoggingFormat.JSON,
            tracing=lambda_.Tracing.ACTIVE,
            vpc=None if place is None else place.vpc,
            vpc_subnets=None if place is None else place.subnets,
            security_groups=None if place is None else [place.group],
            reserved_concurrent_executions=environment.concurrency.reserved.get(entry.name),
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS
            if warmth is Warmth.SNAPSTART and environment.provisioned
            else None,
        )
        # CDK warns that SnapStart works only on published versions; the alias below points to one.
        Annotations.of(self.function).acknowledge_warning("@aws-cdk/aws-lambda:snapStartRequirePublish")
        # X-Ray's write actions support no resource-level permissions.
        self.grant(
            [iam.PolicyStatement(actions=["xray:PutTelemetryRecords", "xray:PutTraceSegments"], resources=["*"])]
        )
        self.alias = lambda_.Alias(
            self,
            "alias",
            alias_name=_ALIAS,
            version=self.function.current_version,
            provisioned_concurrent_executions=warm or None,
        )

        explain(self.role, "these actions support no resource: network interfaces and traces", "IAM5[Resource::*]")
        explain(self.function, "the code is locked, built and tested for python3.13", "L1")

    def keep_failed_events(self, queue: sqs.IQueue, key: kms.IKey) -> None:
        """Configure that Lambda tries an asynchronous event up to three times within six hours, and then sends it to
        the queue.
        """
        self.alias.configure_async_invoke(
            on_failure=destinations.SqsDestination(queue), retry_attempts=2, max_event_age=Duration.hours(6)
        )
        self.grant(
            [
                iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[queue.queue_arn]),
                iam.PolicyStatement(
                    actions=["kms:Decrypt", "kms:GenerateDataKey"],
                    resources=[key.key_arn],
                    conditions={"StringEquals": {"kms:ViaService": f"sqs.{Stack.of(self).region}.amazonaws.com"}},
                ),
            ]
        )

    def grant(self, statements: Iterable[iam.PolicyStatement]) -> None:
        for statement in statements:
            self.role.add_to_policy(statement)
