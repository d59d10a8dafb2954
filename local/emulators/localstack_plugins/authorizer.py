"""Adds REQUEST authorizers of REST APIs to LocalStack: the CloudFormation resource, and their invocation by the
gateway.

LocalStack's API Gateway stores authorizers, but CloudFormation does not create them and the gateway does not invoke
them.

Source: Amazon API Gateway developer guide, "Input to an API Gateway Lambda authorizer" and "Output from …".
"""

import fnmatch
import json
from typing import Any

from localstack.aws.connect import connect_to
from localstack.runtime import hooks
from localstack.services.cloudformation.resource_provider import (
    CloudFormationResourceProviderPlugin,
    OperationStatus,
    ProgressEvent,
    ResourceProvider,
    ResourceRequest,
)

_FIELDS = ("RestApiId", "Name", "Type", "AuthorizerUri", "IdentitySource", "AuthorizerResultTtlInSeconds")


class AuthorizerProvider(ResourceProvider[dict[str, Any]]):
    """Creates and deletes the CloudFormation resource AWS::ApiGateway::Authorizer."""

    TYPE = "AWS::ApiGateway::Authorizer"
    SCHEMA = {  # noqa: RUF012 - as LocalStack declares it
        "typeName": TYPE,
        "primaryIdentifier": ["/properties/AuthorizerId"],
        "readOnlyProperties": ["/properties/AuthorizerId"],
        "createOnlyProperties": ["/properties/RestApiId"],
    }

    def create(self, request: ResourceRequest[dict[str, Any]]) -> ProgressEvent[dict[str, Any]]:
        model = request.desired_state
        wanted = {name[0].lower() + name[1:]: model[name] for name in _FIELDS if name in model}
        model["AuthorizerId"] = request.aws_client_factory.apigateway.create_authorizer(**wanted)["id"]
        return ProgressEvent(status=OperationStatus.SUCCESS, resource_model=model)

    def delete(self, request: ResourceRequest[dict[str, Any]]) -> ProgressEvent[dict[str, Any]]:
        model = request.desired_state
        request.aws_client_factory.apigateway.delete_authorizer(
            restApiId=model["RestApiId"], authorizerId=model["AuthorizerId"]
        )
        return ProgressEvent(status=OperationStatus.SUCCESS, resource_model=model)


class AuthorizerPlugin(CloudFormationResourceProviderPlugin):
    """The plug-in through which LocalStack finds AuthorizerProvider."""

    name = AuthorizerProvider.TYPE

    def __init__(self) -> None:
        self.factory: type[ResourceProvider[dict[str, Any]]] | None = None

    def load(self) -> None:
        """Load the provider; LocalStack calls this before the first resource of this type."""
        self.factory = AuthorizerProvider


@hooks.on_infra_start()
def ask_authorizers() -> None:
    """Invoke the authorizer before the gateway looks for the API key, because the authorizer may return the key.
    Results are not cached.
    """
    from localstack.services.apigateway.next_gen.execute_api.handlers import preprocess_request

    preprocess_request.append(_ask)


def _ask(_chain: object, context: Any, _response: object) -> None:
    from localstack.services.apigateway.next_gen.execute_api.gateway_response import (
        AccessDeniedError,
        AuthorizerConfigurationError,
        UnauthorizedError,
    )

    method, request = context.resource_method, context.invocation_request
    if method.get("authorizationType") != "CUSTOM":
        return
    clients = connect_to(region_name=context.region, aws_access_key_id=context.account_id)
    authorizer = clients.apigateway.get_authorizer(restApiId=context.api_id, authorizerId=method["authorizerId"])
    headers = dict(request["headers"].items())
    wanted = filter(None, authorizer.get("identitySource", "").split(","))
    sources = [each.strip().removeprefix("method.request.header.") for each in wanted]
    if any(not request["headers"].get(name) for name in sources):
        raise UnauthorizedError("Unauthorized")
    arn = (
        f"arn:aws:execute-api:{context.region}:{context.account_id}:{context.api_id}/{context.stage}"
        f"/{request['http_method']}{request['path']}"
    )
    event = {
        "type": "REQUEST",
        "methodArn": arn,
        "resource": context.resource["path"],
        "path": request["path"],
        "httpMethod": request["http_method"],
        "headers": headers,
        "queryStringParameters": request["query_string_parameters"],
        "pathParameters": request.get("path_parameters") or {},
        "requestContext": context.context_variables,
    }
    function = authorizer["authorizerUri"].split(":path/2015-03-31/functions/")[1].removesuffix("/invocations")
    response = clients.lambda_.invoke(FunctionName=function, Payload=json.dumps(event, default=str))
    verdict = json.loads(response["Payload"].read())
    if "FunctionError" in response or not isinstance(verdict, dict) or "policyDocument" not in verdict:
        raise AuthorizerConfigurationError
    if not _allows(verdict["policyDocument"], arn):
        raise AccessDeniedError("User is not authorized to access this resource")
    context.context_variables["authorizer"] = {"principalId": verdict["principalId"], **verdict.get("context", {})}
    if key := verdict.get("usageIdentifierKey"):
        context.context_variables["identity"]["apiKey"] = key
        # LocalStack drops ApiKeySourceType of a template, and would take the key in the header.
        context.deployment.rest_api.rest_api["apiKeySource"] = "AUTHORIZER"


def _allows(policy: Any, arn: str) -> bool:
    effects = {
        statement["Effect"]
        for statement in policy["Statement"]
        for resource in _list(statement["Resource"])
        if fnmatch.fnmatchcase(arn, resource)
    }
    return effects == {"Allow"}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
