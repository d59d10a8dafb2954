"""The API: who may use it, and the functions behind it."""

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.handler import Handler
from infra.cdk.resources.rest_api import RestApi
from infra.cdk.stacks.functions import FunctionsStack
from infra.cdk.stacks.network import NetworkStack


class ApiStack(Stack):
    """rest: the API; authorizer: who says who may use it."""

    def __init__(
        self, scope: Construct, *, environment: Environment, base: NetworkStack, functions: FunctionsStack
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-api", env={"region": environment.region})
        keys = secretsmanager.Secret(
            self,
            "keys",
            secret_name=f"{environment.prefix}/api-keys",
            description="SHA-256 of each API key to the clubs it may see; what is generated here lets nobody in",
            encryption_key=base.key,
            removal_policy=RemovalPolicy.RETAIN if environment.protected else RemovalPolicy.DESTROY,
        )
        explain(keys, "digests of keys: each is replaced by whoever holds it, and the old one stays until then", "SMG4")
        self.authorizer = Handler(
            self,
            module="authorizer",
            environment=environment,
            key=base.key,
            variables={"KEYS_SECRET_ARN": keys.secret_arn},
            statements=[
                iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[keys.secret_arn]),
                iam.PolicyStatement(actions=["kms:Decrypt"], resources=[base.key.key_arn]),
            ],
        )
        routes: dict[str, lambda_.IFunction] = {
            route: function.alias for function in functions.functions.values() for route in function.entry.routes
        }
        self.rest = RestApi(
            self, environment=environment, key=base.key, routes=routes, authorizer=self.authorizer.function
        )
