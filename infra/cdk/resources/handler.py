"""Creates a Lambda function from a module in infra/cdk/handlers."""

from collections.abc import Iterable, Mapping

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.cdk.code import handler_code
from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group


class Handler(Construct):
    """A Lambda function outside the VPC, because it calls only AWS APIs and public addresses.

    Args:
        name: The last part of the function's name; None: that of the module.
        library: A package of infra/packaging/contents.py that the module imports; None: it has no dependencies.

    Attributes:
        function: The Lambda function.
        role: Its role.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        module: str,
        environment: Environment,
        key: kms.IKey,
        variables: Mapping[str, str],
        statements: Iterable[iam.PolicyStatement],
        timeout_s: int = 10,
        name: str | None = None,
        library: str | None = None,
    ) -> None:
        super().__init__(scope, module)
        log = log_group(self, "log", environment=environment, key=key)
        self.role = role = iam.Role(self, "role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.log_group_arn])
        )
        for statement in statements:
            role.add_to_policy(statement)
        self.function = lambda_.Function(
            self,
            "function",
            function_name=f"{environment.prefix}-{name or module.replace('_', '-')}",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            code=handler_code(library),
            handler=f"{module}.handler",
            timeout=Duration.seconds(timeout_s),
            memory_size=256,
            reserved_concurrent_executions=environment.concurrency.reserved.get(module),
            environment=dict(variables),
            role=role.without_policy_updates(),
            log_group=log,
            logging_format=lambda_.LoggingFormat.JSON,
        )
        explain(self.function, "the code is locked, built and tested for python3.13", "L1")
