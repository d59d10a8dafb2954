"""The REST API with its API keys and authorizer."""

import json

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import API_KEYS
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
