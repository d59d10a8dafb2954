"""The REST API with its API keys and authorizer."""

import json

from aws_cdk import ArnFormat, CfnOutput, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import API_KEYS, AUDIT
from infra.cdk.resources.findings import explain
from infra.cdk.resources.handler import Handler
from infra.cdk.resources.rest_api import RestApi, people_key
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.external_data import ExternalDataStack
from infra.cdk.stacks.functions import FunctionsStack
from infra.cdk.stacks.network import NetworkStack


class ApiStack(Stack):
    """The stack of the REST API.

    Attributes:
        rest: The REST API.
        authorizer: The function that authorizes its requests.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        base: NetworkStack,
        data: DataStack | ExternalDataStack,
        functions: FunctionsStack,
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-api", env={"region": environment.region})
        table, people = data.tables[API_KEYS], environment.api.people
        of_people = (
            {}
            if people is None
            else {
                "OIDC_ISSUER": people.issuer,
                "OIDC_AUDIENCE": people.audience,
                "OIDC_KEYS_URL": people.keys_url,
                "OIDC_ROLES_CLAIM": people.roles_claim,
                "OIDC_CLUBS_CLAIM": people.clubs_claim,
                "OIDC_ROLE_LIMITS": json.dumps({role: dict(limits) for role, limits in people.role_limits.items()}),
                "PEOPLE_USAGE_KEY": people_key(environment),
            }
        )
        self.authorizer = Handler(
            self,
            module="authorizer",
            environment=environment,
            key=base.key,
            variables={"API_KEYS_TABLE": table.table_name, **of_people},
            library=None if people is None else "access_tokens",
            statements=[
                iam.PolicyStatement(actions=["dynamodb:GetItem", "dynamodb:UpdateItem"], resources=[table.table_arn]),
                iam.PolicyStatement(actions=["kms:Decrypt"], resources=[base.key.key_arn]),
            ],
        )
        routes: dict[str, lambda_.IFunction] = {
            route: function.alias for function in functions.functions.values() for route in function.entry.routes
        }
        self.rest = RestApi(
            self, environment=environment, key=base.key, routes=routes, authorizer=self.authorizer.function
        )
        domain = environment.api.domain
        # infra/smoke.py reads both.
        CfnOutput(self, "url", value=self.rest.api.url if domain is None else f"https://{domain}")
        CfnOutput(self, "plan", value=self.rest.plan.usage_plan_id, description="the usage plan of API keys")
        self._smoke(environment, base.key, table, data.tables[AUDIT])

    def _smoke(self, environment: Environment, key: kms.IKey, keys: dynamodb.ITable, audit: dynamodb.ITable) -> None:
        """Create a policy for people and pipelines that run `masscomm smoke`; it is attached to their roles.

        A role that stores API keys can give itself any scope: only roles that may have every key get the policy.
        """
        # The calls of infra/smoke.py. API Gateway generates the ids of its keys.
        # https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonapigatewaymanagement.html
        paths = {"POST": ("/apikeys", f"/usageplans/{self.rest.plan.usage_plan_id}/keys"), "DELETE": ("/apikeys/*",)}
        gateway = {
            action: [
                self.format_arn(service="apigateway", account="", resource=each, arn_format=ArnFormat.NO_RESOURCE_NAME)
                for each in found
            ]
            for action, found in paths.items()
        }
        policy = iam.ManagedPolicy(
            self,
            "smoke",
            managed_policy_name=f"{environment.global_prefix}-smoke",
            description="makes an API key for a check of the deployment, and revokes it",
            statements=[
                iam.PolicyStatement(actions=["cloudformation:DescribeStacks"], resources=[self.stack_id]),
                *(
                    iam.PolicyStatement(actions=[f"apigateway:{action}"], resources=arns)
                    for action, arns in gateway.items()
                ),
                iam.PolicyStatement(actions=["dynamodb:PutItem", "dynamodb:UpdateItem"], resources=[keys.table_arn]),
                iam.PolicyStatement(actions=["dynamodb:PutItem"], resources=[audit.table_arn]),
                iam.PolicyStatement(
                    actions=["kms:Decrypt", "kms:DescribeKey"],
                    resources=[key.key_arn],
                    conditions={"StringEquals": {"kms:ViaService": f"dynamodb.{self.region}.amazonaws.com"}},
                ),
            ],
        )
        explain(policy, "ids of API keys are generated", *(f"IAM5[Resource::{each}]" for each in gateway["DELETE"]))
