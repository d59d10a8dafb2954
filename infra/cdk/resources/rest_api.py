"""Creates API Gateway's REST API in front of the functions that have routes."""

import json
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus

from aws_cdk import Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_wafv2 as waf
from constructs import Construct

from infra.cdk.config import ApiConfig, Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group
from masscomm.domain.time_limits import GATEWAY_TIMEOUT_S
from masscomm.http.problem import CONTENT_TYPE, Problem, request_too_large
from masscomm.http.scopes import PUBLIC_ROUTES
from masscomm.texts import CodedText, Text

STAGE = "live"
# The managed rule groups of AWS WAF that are used.
_MANAGED = (
    "AWSManagedRulesCommonRuleSet",
    "AWSManagedRulesKnownBadInputsRuleSet",
    "AWSManagedRulesAmazonIpReputationList",
)
# Rules that only count, because they refuse requests that the API accepts. Source: "Baseline rule groups" in the
# developer guide of AWS WAF.
_NOT_FOR_US = {
    "AWSManagedRulesCommonRuleSet": (
        "SizeRestrictions_BODY",  # Above 8 kB: a send may have a hundred thousand recipients.
        "SizeRestrictions_QUERYSTRING",  # Above 2 kB: a list may have a hundred values of a filter.
        # The texts of a message are markup and addresses. They are data here: no function executes or opens them.
        "CrossSiteScripting_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
        "EC2MetaDataSSRF_BODY",
        # Some HTTP libraries, such as PHP's, and servers that follow an unsubscribe link send no User-Agent.
        "NoUserAgent_HEADER",
    )
}
# The header in which the console's distribution names the address of the viewer.
VIEWER_HEADER = "x-viewer-address"
# The maximum requests from one address of the distribution, which serves many viewers, in those of one viewer.
_VIEWERS_AN_EDGE = 10
# The types of API Gateway's own errors, with their statuses; None: those of any other type keep theirs. Source: AWS
# documentation, "Gateway response types for API Gateway".
_ERRORS: Mapping[str, HTTPStatus | None] = {
    "DEFAULT_4XX": None,
    "DEFAULT_5XX": None,
    # The authorizer denies requests without a valid credential; functions refuse those without permission.
    "ACCESS_DENIED": HTTPStatus.UNAUTHORIZED,
    "UNAUTHORIZED": HTTPStatus.UNAUTHORIZED,
    "INVALID_API_KEY": HTTPStatus.FORBIDDEN,
    "MISSING_AUTHENTICATION_TOKEN": HTTPStatus.NOT_FOUND,
    "WAF_FILTERED": HTTPStatus.FORBIDDEN,
    "REQUEST_TOO_LARGE": HTTPStatus.CONTENT_TOO_LARGE,
    "THROTTLED": HTTPStatus.TOO_MANY_REQUESTS,
    "QUOTA_EXCEEDED": HTTPStatus.TOO_MANY_REQUESTS,
    "AUTHORIZER_FAILURE": HTTPStatus.INTERNAL_SERVER_ERROR,
    "AUTHORIZER_CONFIGURATION_ERROR": HTTPStatus.INTERNAL_SERVER_ERROR,
    "INTEGRATION_TIMEOUT": HTTPStatus.GATEWAY_TIMEOUT,
}
# The usage plan gives a throttled caller requests again within a second; its quota is that of a day.
_RETRY_AFTER_S = {"THROTTLED": 1, "QUOTA_EXCEEDED": 3_600}
_ACCESS_LOG = {
    "requestId": "$context.requestId",
    "ip": "$context.identity.sourceIp",
    "principal": "$context.authorizer.principalId",
    "requestTime": "$context.requestTime",
    "httpMethod": "$context.httpMethod",
    "resourcePath": "$context.resourcePath",
    "status": "$context.status",
    "protocol": "$context.protocol",
    "responseLength": "$context.responseLength",
}


def people_key(environment: Environment) -> str:
    """Return the value of the API key in whose usage plan the requests of people are counted."""
    return f"{environment.prefix}-people-who-signed-in"


def _texts(config: ApiConfig) -> Mapping[str, CodedText]:
    """Return the text of each of API Gateway's own errors: its type → the text."""
    invalid, failed = Text.CREDENTIALS_INVALID.filled(), Text.SERVICE_FAILED.filled()
    return {
        "ACCESS_DENIED": invalid,
        "UNAUTHORIZED": invalid,
        "INVALID_API_KEY": invalid,
        # No route needs IAM's authentication, so that this error has one reason.
        "MISSING_AUTHENTICATION_TOKEN": Text.ROUTE_UNKNOWN.filled(),
        "WAF_FILTERED": Text.FIREWALL_REFUSED.filled(),
        "REQUEST_TOO_LARGE": request_too_large(),
        "THROTTLED": Text.REQUESTS_A_SECOND.filled(rate=config.rate, burst=config.burst),
        "QUOTA_EXCEEDED": Text.REQUESTS_A_DAY.filled(maximum=config.requests_a_day),
        "AUTHORIZER_FAILURE": failed,
        "AUTHORIZER_CONFIGURATION_ERROR": failed,
        "INTEGRATION_TIMEOUT": Text.ANSWER_TOO_LATE.filled(seconds=GATEWAY_TIMEOUT_S),
    }


class RestApi(Construct):
    """The REST API with its authorizer, usage plan and firewall.

    Args:
        routes: Route, such as `GET /v1/metrics`, → alias of the function that serves it.
        authorizer: The function of infra/cdk/handlers/authorizer.py.

    Attributes:
        api: The REST API.
        plan: The usage plan of the API keys.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        routes: Mapping[str, lambda_.IFunction],
        authorizer: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, "rest")
        config = environment.api
        access = log_group(self, "access-log", environment=environment, key=key)
        domain = None
        if config.domain and config.certificate_arn:
            domain = apigateway.DomainNameOptions(
                domain_name=config.domain,
                certificate=acm.Certificate.from_certificate_arn(self, "certificate", config.certificate_arn),
                security_policy=apigateway.SecurityPolicy.TLS_1_2,
            )
        self.api = apigateway.RestApi(
            self,
            "api",
            rest_api_name=environment.prefix,
            description=f"{environment.prefix}: sends and metrics",
            endpoint_types=[apigateway.EndpointType.REGIONAL],
            api_key_source_type=apigateway.ApiKeySourceType.AUTHORIZER,
            domain_name=domain,
            # An API with a custom domain has no default host name, because requests to it would bypass firewall rules
            # by host.
            disable_execute_api_endpoint=domain is not None,
            cloud_watch_role=False,
            deploy_options=apigateway.StageOptions(
                stage_name=STAGE,
                tracing_enabled=True,
                metrics_enabled=True,
                logging_level=apigateway.MethodLoggingLevel.ERROR,
                data_trace_enabled=False,
                access_log_destination=apigateway.LogGroupLogDestination(access),
                access_log_format=apigateway.AccessLogFormat.custom(json.dumps(_ACCESS_LOG)),
                throttling_rate_limit=config.rate * 10,
                throttling_burst_limit=config.burst * 10,
                # Requests without an API key have no usage plan: this limit keeps capacity for the others.
                method_options={
                    f"{path}/{method}": apigateway.MethodDeploymentOptions(
                        throttling_rate_limit=config.rate, throttling_burst_limit=config.burst
                    )
                    for method, path in sorted(PUBLIC_ROUTES)
                },
            ),
        )
        # The log group is created here: API Gateway would create it without our key and without an expiry.
        name = f"API-Gateway-Execution-Logs_{self.api.rest_api_id}/{STAGE}"
        execution = log_group(self, "execution-log", environment=environment, key=key, name=name)
        self.api.deployment_stage.node.add_dependency(execution)
        self._methods(routes, authorizer, people=config.people is not None)
        self._errors(config)
        self.plan = self._usage_plan(environment)
        if environment.api.firewall:
            self._firewall(environment)
        else:
            explain(
                self.api,
                "the rates of the stage and of each key limit requests; a firewall is charged while idle",
                "APIG3",
            )

    def _methods(self, routes: Mapping[str, lambda_.IFunction], authorizer: lambda_.IFunction, *, people: bool) -> None:
        # All identity sources must be present, so a request with either a key or a token cannot have one, and without
        # them API Gateway keeps no results. Source: API Gateway API reference, "CreateAuthorizer": identitySource.
        # Its own JWT authorizers are for HTTP APIs only. Source: "Choose between REST APIs and HTTP APIs".
        request_authorizer = apigateway.RequestAuthorizer(
            self,
            "who",
            handler=authorizer,
            identity_sources=[] if people else [apigateway.IdentitySource.header("x-api-key")],
            results_cache_ttl=Duration.seconds(0 if people else 60),
        )
        for route, function in routes.items():
            method, _, path = route.partition(" ")
            resource = self.api.root.resource_for_path(path)
            # One permission for all routes of a function: a statement for each would exceed its policy of 20 kB.
            # https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
            integration = apigateway.LambdaIntegration(function, scope_permission_to_method=False)
            if (method, path) in PUBLIC_ROUTES:
                made = resource.add_method(method, integration, authorization_type=apigateway.AuthorizationType.NONE)
                explain(made, "a signed token in the path is the credential of this route", "APIG4", "COG4")
                continue
            made = resource.add_method(
                method,
                integration,
                authorizer=request_authorizer,
                authorization_type=apigateway.AuthorizationType.CUSTOM,
                api_key_required=True,
            )
            explain(made, "a Lambda authorizer accepts API keys and tokens of any OpenID Connect issuer", "COG4")
        explain(self.api, "each function validates its request and answers errors as problem+json", "APIG2")
        # Not from the test stage of the console, which passes the authorizer by.
        source = self.api.arn_for_execute_api("*", "/*", STAGE)
        for permission in self.node.find_all():
            if isinstance(permission, lambda_.CfnPermission):
                permission.source_arn = source

    def _errors(self, config: ApiConfig) -> None:
        """Format the gateway's own errors as problem+json, like the errors of the functions. Their templates have no
        variable for the status, so that only an error whose type determines the status has it, and a text of our own.
        """
        texts = _texts(config)
        for name, status in _ERRORS.items():
            members = (
                '"type": "about:blank", "title": $context.error.messageString, "detail": $context.error.messageString'
                if status is None
                else json.dumps(Problem(status, texts[name]).body())[1:-1]
            )
            retry = {"Retry-After": f"'{_RETRY_AFTER_S[name]}'"} if name in _RETRY_AFTER_S else {}
            self.api.add_gateway_response(
                f"problem-{name}",
                type=apigateway.ResponseType.of(name),
                templates={CONTENT_TYPE: f'{{{members}, "instance": "$context.requestId"}}'},
                response_headers={"Content-Type": f"'{CONTENT_TYPE}'", **retry},
                status_code=None if status is None else str(status.value),
            )

    def _usage_plan(self, environment: Environment) -> apigateway.UsagePlan:
        config = environment.api
        plan = self.api.add_usage_plan(
            "plan",
            name=environment.prefix,
            throttle=apigateway.ThrottleSettings(rate_limit=config.rate, burst_limit=config.burst),
            quota=apigateway.QuotaSettings(limit=config.requests_a_day, period=apigateway.Period.DAY),
            api_stages=[apigateway.UsagePlanPerApiStage(api=self.api, stage=self.api.deployment_stage)],
        )
        if config.people is not None:
            # The value is not a secret: only the authorizer names the key of a request, and it accepts none like this.
            plan.add_api_key(
                apigateway.ApiKey(self, "people", description="requests of people", value=people_key(environment))
            )
        return plan

    def _firewall(self, environment: Environment) -> None:
        def visibility(name: str) -> waf.CfnWebACL.VisibilityConfigProperty:
            return waf.CfnWebACL.VisibilityConfigProperty(
                cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=True
            )

        rates = [
            waf.CfnWebACL.RuleProperty(
                name=name,
                priority=priority,
                action=waf.CfnWebACL.RuleActionProperty(block={}),
                statement=waf.CfnWebACL.StatementProperty(rate_based_statement=statement),
                visibility_config=visibility(name),
            )
            for priority, (name, statement) in enumerate(_rates(environment).items())
        ]
        managed = [
            waf.CfnWebACL.RuleProperty(
                name=name,
                priority=priority,
                override_action=waf.CfnWebACL.OverrideActionProperty(none={}),
                statement=waf.CfnWebACL.StatementProperty(
                    managed_rule_group_statement=waf.CfnWebACL.ManagedRuleGroupStatementProperty(
                        vendor_name="AWS",
                        name=name,
                        rule_action_overrides=[
                            waf.CfnWebACL.RuleActionOverrideProperty(
                                name=rule, action_to_use=waf.CfnWebACL.RuleActionProperty(count={})
                            )
                            for rule in _NOT_FOR_US.get(name, ())
                        ],
                    )
                ),
                visibility_config=visibility(name),
            )
            for priority, name in enumerate(_MANAGED, len(rates))
        ]
        acl = waf.CfnWebACL(
            self,
            "firewall",
            name=environment.prefix,
            scope="REGIONAL",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            visibility_config=visibility(environment.prefix),
            rules=[*rates, *managed],
        )
        waf.CfnWebACLAssociation(
            self, "behind", resource_arn=self.api.deployment_stage.stage_arn, web_acl_arn=acl.attr_arn
        )


def _rates(environment: Environment) -> dict[str, waf.CfnWebACL.RateBasedStatementProperty]:
    """Return the limits of requests in five minutes, by the name of their rule.

    The requests of the console's viewers come from few addresses of CloudFront, so they are counted by the header in
    which it names the viewer. Other callers could send that header with false addresses: the last limit is for them.
    Requests without the header are not counted by the rule that uses it. Source: "ForwardedIPConfig" in the API
    reference of AWS WAF.
    """
    limit = environment.api.requests_an_address
    by_address = partial(waf.CfnWebACL.RateBasedStatementProperty, aggregate_key_type="IP", evaluation_window_sec=300)
    if environment.console is None:
        return {"requests-an-address": by_address(limit=limit)}
    from_the_console = waf.CfnWebACL.StatementProperty(
        size_constraint_statement=waf.CfnWebACL.SizeConstraintStatementProperty(
            field_to_match=waf.CfnWebACL.FieldToMatchProperty(single_header={"Name": VIEWER_HEADER}),
            comparison_operator="GE",
            size=0,
            text_transformations=[waf.CfnWebACL.TextTransformationProperty(priority=0, type="NONE")],
        )
    )
    others = waf.CfnWebACL.StatementProperty(
        not_statement=waf.CfnWebACL.NotStatementProperty(statement=from_the_console)
    )
    return {
        "requests-an-address": by_address(limit=limit, scope_down_statement=others),
        "requests-a-viewer": waf.CfnWebACL.RateBasedStatementProperty(
            aggregate_key_type="FORWARDED_IP",
            forwarded_ip_config=waf.CfnWebACL.ForwardedIPConfigurationProperty(
                header_name=VIEWER_HEADER, fallback_behavior="MATCH"
            ),
            limit=limit,
            evaluation_window_sec=300,
        ),
        "requests-an-edge": by_address(limit=limit * _VIEWERS_AN_EDGE),
    }
