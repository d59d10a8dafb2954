"""Creates the door for incoming webhooks: an API Gateway of its own that writes to an SQS queue without a function.

Sources in AWS' documentation: API Gateway developer guide, "Content type conversions in API Gateway", "Variables for
data transformations", "Integration passthrough behavior"; API Gateway API reference, "IntegrationResponse"; SQS
developer guide, "Amazon SQS fair queues" and "Amazon SQS message quotas".
"""

import json
from functools import partial
from urllib.parse import quote

from aws_cdk import Duration, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_wafv2 as waf
from constructs import Construct

from functions.catalogue import FunctionEntry
from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group
from masscomm.domain.incoming_messages import CONTENT_TYPES, DOOR, MAX_BODY_KB, MAX_MESSAGE_BYTES
from masscomm.domain.time_limits import DOOR_RETRY_AFTER_S
from masscomm.http.problem import CONTENT_TYPE, Problem
from masscomm.texts import CodedText, Text

STAGE = "live"
# The longest retention of SQS.
KEPT = Duration.days(14)
# The path of a request has the id of a source, which is secret: the log has the resource alone.
_ACCESS_LOG = {
    "requestId": "$context.requestId",
    "ip": "$context.identity.sourceIp",
    "requestTime": "$context.requestTime",
    "httpMethod": "$context.httpMethod",
    "resourcePath": "$context.resourcePath",
    "status": "$context.status",
    "integrationStatus": "$context.integration.status",
    "requestLength": "$context.requestLength",
}


def message_template() -> str:
    """Return the mapping template of a request to SQS: the message is that of masscomm.domain.incoming_messages.

    The body of the request is base64 already (contentHandling CONVERT_TO_TEXT), and so are the values of headers: no
    caller's text is a part of the JSON. The names of headers are tokens.
    """
    text = partial(quote, safe="")
    headers = (
        "#foreach($name in $headers.keySet())"
        + text('"')
        + "$util.urlEncode($name)"
        + text('":"')
        + "$util.urlEncode($util.base64Encode($headers.get($name)))"
        + text('"')
        + "#if($foreach.hasNext)"
        + text(",")
        + "#end#end"
    )
    return (
        # A message group has letters, digits and punctuation, and at most 128 of them.
        "#set($source = $input.params().path.get('source').replaceAll('[^A-Za-z0-9_]', '').replaceAll('^.{101,}$', ''))"
        "#set($headers = $input.params().header)"
        "Action=SendMessage&Version=2012-11-05"
        "&MessageGroupId=#if($source == '')other#{else}$source#end"
        "&MessageBody="
        + text('{"source":"')
        + "$source"
        + text('","received_at":')
        + "$context.requestTimeEpoch"
        + text(',"headers":{')
        + headers
        + text('},"body":"')
        + "$util.urlEncode($input.body)"
        + text('"}')
    )


def refusal_template() -> str:
    """Return the mapping template of the response to a message that SQS refuses: 413 if it is too large, else 503."""
    too_large = _problem(413, Text.WEBHOOK_TOO_LARGE.filled(kilobytes=MAX_BODY_KB))
    return (
        '#if($input.body.contains("must be shorter"))'
        f"#set($context.responseOverride.status = 413){too_large}"
        f"#else{_problem(503, Text.WEBHOOK_NOT_QUEUED.filled())}#end"
    )


def _problem(status: int, text: CodedText) -> str:
    return json.dumps(Problem(status, text).body())


class Door(Construct):
    """The queue of incoming webhooks, and the API that writes to it.

    Args:
        receiver: The function that reads the queue.

    Attributes:
        queue: The queue. A message stays in it for 14 days, until webhook_receiver has processed it.
        url: The address of the API, without the path of a source.
    """

    def __init__(self, scope: Construct, *, environment: Environment, key: kms.IKey, receiver: FunctionEntry) -> None:
        super().__init__(scope, "door")
        config = environment.api
        if receiver.queue is None:
            raise ValueError(f"{receiver.name} has no queue")
        self.queue = sqs.Queue(
            self,
            "queue",
            queue_name=f"{environment.prefix}-{receiver.queue.name}",
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=key,
            # Each message would need a request to KMS; the shortest period that SQS has is a minute, the longest a day.
            data_key_reuse=Duration.hours(1),
            enforce_ssl=True,
            retention_period=KEPT,
            # As Lambda's documentation advises.
            visibility_timeout=Duration.seconds(6 * receiver.timeout_s),
            max_message_size_bytes=MAX_MESSAGE_BYTES,
        )
        explain(self.queue, "a message waits for its function, and is never moved: an outage loses none", "SQS3")
        access = log_group(self, "access-log", environment=environment, key=key)
        self.api = apigateway.RestApi(
            self,
            "api",
            rest_api_name=f"{environment.prefix}-incoming",
            description=f"{environment.prefix}: incoming webhooks",
            endpoint_types=[apigateway.EndpointType.REGIONAL],
            # With these, API Gateway passes the unchanged bytes of a body on, in base64.
            binary_media_types=["*/*"],
            cloud_watch_role=False,
            deploy_options=apigateway.StageOptions(
                stage_name=STAGE,
                tracing_enabled=True,
                metrics_enabled=True,
                logging_level=apigateway.MethodLoggingLevel.ERROR,
                data_trace_enabled=False,
                access_log_destination=apigateway.LogGroupLogDestination(access),
                access_log_format=apigateway.AccessLogFormat.custom(json.dumps(_ACCESS_LOG)),
                throttling_rate_limit=config.incoming_rate,
                throttling_burst_limit=config.incoming_burst,
            ),
        )
        stack = Stack.of(self)
        host = f"{self.api.rest_api_id}.execute-api.{stack.region}.{stack.url_suffix}"
        self.url = f"https://{host}/{STAGE}"
        name = f"API-Gateway-Execution-Logs_{self.api.rest_api_id}/{STAGE}"
        execution = log_group(self, "execution-log", environment=environment, key=key, name=name)
        self.api.deployment_stage.node.add_dependency(execution)
        method = self.api.root.resource_for_path(DOOR).add_method(
            "POST",
            self._integration(key),
            authorization_type=apigateway.AuthorizationType.NONE,
            method_responses=[
                apigateway.MethodResponse(status_code="202"),
                apigateway.MethodResponse(
                    status_code="503",
                    response_parameters={
                        "method.response.header.Content-Type": True,
                        "method.response.header.Retry-After": True,
                    },
                ),
            ],
        )
        explain(method, "senders sign their webhooks, and the id of a source is secret", "APIG4", "COG4")
        explain(self.api, "the signature of a webhook is verified behind the queue", "APIG2")
        self._errors()
        if environment.api.firewall:
            self._firewall(environment)
        else:
            explain(
                self.api,
                "the rate of the stage limits requests, which have no key; a firewall is charged while idle",
                "APIG3",
            )

    def _integration(self, key: kms.IKey) -> apigateway.AwsIntegration:
        role = iam.Role(self, "writer", assumed_by=iam.ServicePrincipal("apigateway.amazonaws.com"))
        self.queue.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[role],
                actions=["sqs:SendMessage"],
                resources=[self.queue.queue_arn],
                conditions={"StringEquals": {"aws:PrincipalAccount": Stack.of(self).account}},
            )
        )
        role.add_to_policy(iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[self.queue.queue_arn]))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=[key.key_arn],
                conditions={"StringEquals": {"kms:ViaService": f"sqs.{Stack.of(self).region}.amazonaws.com"}},
            )
        )
        template = message_template()
        return apigateway.AwsIntegration(
            service="sqs",
            path=f"{Stack.of(self).account}/{self.queue.queue_name}",
            integration_http_method="POST",
            options=apigateway.IntegrationOptions(
                credentials_role=role,
                content_handling=apigateway.ContentHandling.CONVERT_TO_TEXT,
                # A body of another type would reach SQS without the template.
                passthrough_behavior=apigateway.PassthroughBehavior.NEVER,
                request_parameters={"integration.request.header.Content-Type": "'application/x-www-form-urlencoded'"},
                request_templates=dict.fromkeys(CONTENT_TYPES, template),
                integration_responses=[
                    apigateway.IntegrationResponse(
                        status_code="202",
                        content_handling=apigateway.ContentHandling.CONVERT_TO_TEXT,
                        response_templates={"application/json": ""},
                    ),
                    apigateway.IntegrationResponse(
                        status_code="503",
                        selection_pattern=r"4\d{2}|5\d{2}",
                        content_handling=apigateway.ContentHandling.CONVERT_TO_TEXT,
                        response_parameters={
                            "method.response.header.Content-Type": f"'{CONTENT_TYPE}'",
                            "method.response.header.Retry-After": f"'{DOOR_RETRY_AFTER_S}'",
                        },
                        response_templates={"application/json": refusal_template()},
                    ),
                ],
            ),
        )

    def _errors(self) -> None:
        """Format those errors of API Gateway that senders see as problem+json."""
        texts = {
            "REQUEST_TOO_LARGE": (413, Text.WEBHOOK_TOO_LARGE.filled(kilobytes=MAX_BODY_KB)),
            "UNSUPPORTED_MEDIA_TYPE": (415, Text.WEBHOOK_TYPE.filled(types=", ".join(CONTENT_TYPES))),
            "INTEGRATION_FAILURE": (503, Text.WEBHOOK_NOT_QUEUED.filled()),
            "INTEGRATION_TIMEOUT": (503, Text.WEBHOOK_NOT_QUEUED.filled()),
            "THROTTLED": (429, Text.WEBHOOK_NOT_QUEUED.filled()),
        }
        for name, (status, text) in texts.items():
            retry = {} if status in (413, 415) else {"Retry-After": f"'{DOOR_RETRY_AFTER_S}'"}
            self.api.add_gateway_response(
                f"problem-{name}",
                type=apigateway.ResponseType.of(name),
                templates={CONTENT_TYPE: _problem(status, text)},
                response_headers={"Content-Type": f"'{CONTENT_TYPE}'", **retry},
                status_code=str(status),
            )

    def _firewall(self, environment: Environment) -> None:
        """Limit the requests of an address. No rule reads bodies: texts of other systems resemble attacks."""
        name = f"{environment.prefix}-incoming"
        visibility = waf.CfnWebACL.VisibilityConfigProperty(
            cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=True
        )
        acl = waf.CfnWebACL(
            self,
            "firewall",
            name=name,
            scope="REGIONAL",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            visibility_config=visibility,
            rules=[
                waf.CfnWebACL.RuleProperty(
                    name="requests-an-address",
                    priority=0,
                    action=waf.CfnWebACL.RuleActionProperty(block={}),
                    statement=waf.CfnWebACL.StatementProperty(
                        rate_based_statement=waf.CfnWebACL.RateBasedStatementProperty(
                            aggregate_key_type="IP",
                            evaluation_window_sec=300,
                            limit=environment.api.incoming_an_address,
                        )
                    ),
                    visibility_config=visibility,
                )
            ],
        )
        waf.CfnWebACLAssociation(
            self, "behind", resource_arn=self.api.deployment_stage.stage_arn, web_acl_arn=acl.attr_arn
        )
