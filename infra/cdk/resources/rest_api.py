"""Creates API Gateway's REST API in front of the functions that have routes."""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_wafv2 as waf
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group

STAGE = "live"
# The managed rule groups of AWS WAF that are used.
_MANAGED = (
    "AWSManagedRulesCommonRuleSet",
    "AWSManagedRulesKnownBadInputsRuleSet",
    "AWSManagedRulesAmazonIpReputationList",
)
# Excluded rules: the common rule set refuses bodies above 8 kB, but a send may have a hundred thousand recipients.
_NOT_FOR_US = {"AWSManagedRulesCommonRuleSet": ("SizeRestrictions_BODY",)}
_PROBLEM = "application/problem+json"


class RestApi(Construct):
    """The REST API with its authorizer, usage plan and firewall.

    Args:
        routes: Route, such as `GET /v1/metrics`, → alias of the function that serves it.
        authorizer: The function of infra/cdk/handlers/authorizer.py.

    Attributes:
        api: The REST API.
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
                access_log_format=apigateway.AccessLogFormat.json_with_standard_fields(
                    caller=False,
                    http_method=True,
                    ip=True,
                    protocol=True,
                    request_time=True,
                    resource_path=True,
                    response_length=True,
                    status=True,
                    user=False,
                ),
                throttling_rate_limit=config.rate * 10,
                throttling_burst_limit=config.burst * 10,
            ),
        )
        # The log group is created here: API Gateway would create it without our key and without an expiry.
        name = f"API-Gateway-Execution-Logs_{self.api.rest_api_id}/{STAGE}"
        execution = log_group(self, "execution-log", environment=environment, key=key, name=name)
        self.api.deployment_stage.node.add_dependency(execution)
        self._methods(routes, authorizer)
        self._errors()
        self._usage_plan(environment)
        self._firewall(environment)

    def _methods(self, routes: Mapping[str, lambda_.IFunction], authorizer: lambda_.IFunction) -> None:
        request_authorizer = apigateway.RequestAuthorizer(
            self,
            "who",
            handler=authorizer,
            identity_sources=[apigateway.IdentitySource.header("x-api-key")],
            results_cache_ttl=Duration.seconds(60),
        )
        for route, function in routes.items():
            method, _, path = route.partition(" ")
            made = self.api.root.resource_for_path(path).add_method(
                method,
                apigateway.LambdaIntegration(function, allow_test_invoke=False),
                authorizer=request_authorizer,
                authorization_type=apigateway.AuthorizationType.CUSTOM,
                api_key_required=True,
            )
            explain(made, "callers are systems with API keys: the API has a Lambda authorizer", "COG4")
        explain(self.api, "each function validates its request and answers errors as problem+json", "APIG2")

    def _errors(self) -> None:
        """Format the gateway's own errors as problem+json, like the errors of the functions."""
        for kind in (apigateway.ResponseType.DEFAULT_4_XX, apigateway.ResponseType.DEFAULT_5_XX):
            self.api.add_gateway_response(
                f"problem-{kind.response_type}",
                type=kind,
                templates={
                    _PROBLEM: '{"type": "about:blank", "title": $context.error.messageString,'
                    ' "instance": "$context.requestId"}'
                },
                response_headers={"Content-Type": f"'{_PROBLEM}'"},
            )

    def _usage_plan(self, environment: Environment) -> None:
        config = environment.api
        self.api.add_usage_plan(
            "plan",
            name=environment.prefix,
            throttle=apigateway.ThrottleSettings(rate_limit=config.rate, burst_limit=config.burst),
            quota=apigateway.QuotaSettings(limit=config.requests_a_day, period=apigateway.Period.DAY),
            api_stages=[apigateway.UsagePlanPerApiStage(api=self.api, stage=self.api.deployment_stage)],
        )

    def _firewall(self, environment: Environment) -> None:
        def visibility(name: str) -> waf.CfnWebACL.VisibilityConfigProperty:
            return waf.CfnWebACL.VisibilityConfigProperty(
                cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=True
            )

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
            for priority, name in enumerate(_MANAGED, 1)
        ]
        rate = waf.CfnWebACL.RuleProperty(
            name="requests-an-address",
            priority=0,
            action=waf.CfnWebACL.RuleActionProperty(block={}),
            statement=waf.CfnWebACL.StatementProperty(
                rate_based_statement=waf.CfnWebACL.RateBasedStatementProperty(
                    aggregate_key_type="IP", limit=environment.api.requests_an_address, evaluation_window_sec=300
                )
            ),
            visibility_config=visibility("requests-an-address"),
        )
        acl = waf.CfnWebACL(
            self,
            "firewall",
            name=environment.prefix,
            scope="REGIONAL",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            visibility_config=visibility(environment.prefix),
            rules=[rate, *managed],
        )
        waf.CfnWebACLAssociation(
            self, "behind", resource_arn=self.api.deployment_stage.stage_arn, web_acl_arn=acl.attr_arn
        )
