"""Creates the distribution that serves the console, the documentation and the REST API at one address, and stores the
files of both.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from aws_cdk import Duration, Stack
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import aws_s3_deployment as deployment
from constructs import Construct

from infra.cdk.code import console_files
from infra.cdk.config import ConsoleConfig, Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.rest_api import VIEWER_HEADER, RestApi
from masscomm.http.console_headers import (
    DOCS_SECURITY_POLICY,
    REFERENCE_SECURITY_POLICY,
    content_security_policy,
)

# The name of a file contains the digest of its content only below these folders (web/vite.config.ts, VitePress).
_HASHED = ["assets/*", "docs/assets/*"]
# The statuses that CloudFront caches. Without an entry it keeps each for 10 s, whatever Cache-Control says, and would
# return one caller's error to another. Source: "Control how long CloudFront caches errors" in its developer guide.
_CACHED_ERRORS = (400, 403, 404, 405, 414, 500, 501, 502, 503, 504)
# CloudFront's address is the source of each request at the API; the firewall counts by this header.
_NAME_THE_VIEWER = f"""function handler(event) {{
  var request = event.request;
  request.headers['{VIEWER_HEADER}'] = {{ value: event.viewer.ip }};
  return request;
}}
"""
# S3 has no index of a folder, and the default root object is that of the root only. Source: "Specify a default root
# object" in CloudFront's developer guide.
_INDEX_OF_FOLDER = """function handler(event) {
  var request = event.request;
  if (request.uri === '/docs') {
    return { statusCode: 301, statusDescription: 'Moved Permanently', headers: { location: { value: '/docs/' } } };
  }
  if (request.uri.endsWith('/')) request.uri += 'index.html';
  return request;
}
"""


class Console(Construct):
    """The distribution: the API below /v1, the documentation below /docs, the console's files elsewhere.

    The pages of the console are behind a `#` in the address, so that no path needs another file than its own.

    Args:
        issuer: The address of the OpenID Connect issuer, which the console calls to sign in.
        files: The bucket of the console's files.
        access_log: The bucket of the distribution's access log.
        api: The REST API.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        console: ConsoleConfig,
        issuer: str,
        files: s3.Bucket,
        access_log: s3.Bucket,
        api: RestApi,
    ) -> None:
        super().__init__(scope, "console")
        parts = urlsplit(issuer)
        called = dict.fromkeys((f"{parts.scheme}://{parts.netloc}", *console.sign_in_origins))
        headers = _headers(self, "headers", f"{environment.global_prefix}-console", content_security_policy(called))
        docs_headers = _headers(self, "docs-headers", f"{environment.global_prefix}-docs", DOCS_SECURITY_POLICY)
        reference_headers = _headers(
            self, "reference-headers", f"{environment.global_prefix}-api-reference", REFERENCE_SECURITY_POLICY
        )
        name_the_viewer = _at_each_request(self, "name-the-viewer", environment, _NAME_THE_VIEWER)
        index_of_folder = _at_each_request(self, "index-of-folder", environment, _INDEX_OF_FOLDER)
        # CDK's name for it has no region.
        access = cloudfront.S3OriginAccessControl(
            self, "files-access", origin_access_control_name=f"{environment.global_prefix}-files"
        )
        files_origin = origins.S3BucketOrigin.with_origin_access_control(files, origin_access_control=access)
        https = cloudfront.ViewerProtocolPolicy.REDIRECT_TO_HTTPS
        distribution = cloudfront.Distribution(
            self,
            "distribution",
            comment=f"{environment.prefix}: console and API",
            domain_names=[console.domain],
            certificate=acm.Certificate.from_certificate_arn(self, "certificate", console.certificate_arn),
            minimum_protocol_version=cloudfront.SecurityPolicyProtocol.TLS_V1_2_2021,
            default_root_object="index.html",
            default_behavior=cloudfront.BehaviorOptions(
                origin=files_origin, viewer_protocol_policy=https, response_headers_policy=headers
            ),
            # CloudFront applies the first pattern that matches.
            additional_behaviors={
                "/v1/*": cloudfront.BehaviorOptions(
                    origin=_origin(environment, api),
                    viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
                    allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
                    cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
                    # API Gateway refuses requests that name another host.
                    origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
                    response_headers_policy=headers,
                    function_associations=[name_the_viewer],
                ),
                **{
                    pattern: cloudfront.BehaviorOptions(
                        origin=files_origin,
                        viewer_protocol_policy=https,
                        response_headers_policy=policy,
                        function_associations=[index_of_folder],
                    )
                    for pattern, policy in (("/docs/api-reference/*", reference_headers), ("/docs*", docs_headers))
                },
            },
            error_responses=[
                cloudfront.ErrorResponse(http_status=status, ttl=Duration.seconds(0)) for status in _CACHED_ERRORS
            ],
            enable_logging=True,
            log_bucket=access_log,
            log_file_prefix="console/",
            web_acl_id=console.web_acl_arn,
        )
        explain(distribution, "people sign in from any country, and the issuer decides who they are", "CFR1")
        if console.web_acl_arn is None:
            explain(distribution, "the files are public, and the API behind it has a firewall of its own", "CFR2")


def _origin(environment: Environment, api: RestApi) -> origins.HttpOrigin:
    if environment.api.domain is not None:
        return origins.HttpOrigin(environment.api.domain)
    return origins.RestApiOrigin(api.api)


def _at_each_request(scope: Construct, id: str, environment: Environment, code: str) -> cloudfront.FunctionAssociation:
    """Return a function that changes the requests of viewers."""
    function = cloudfront.Function(
        scope,
        id,
        function_name=f"{environment.global_prefix}-{id}",
        code=cloudfront.FunctionCode.from_inline(code),
        runtime=cloudfront.FunctionRuntime.JS_2_0,
    )
    return cloudfront.FunctionAssociation(event_type=cloudfront.FunctionEventType.VIEWER_REQUEST, function=function)


def _headers(scope: Construct, id: str, name: str, security_policy: str) -> cloudfront.ResponseHeadersPolicy:
    """Return the policy of the headers that each response has; a header of the origin has precedence, because the page
    of unsubscribe links has a Content-Security-Policy of its own.
    """
    return cloudfront.ResponseHeadersPolicy(
        scope,
        id,
        response_headers_policy_name=name,
        security_headers_behavior=cloudfront.ResponseSecurityHeadersBehavior(
            content_security_policy=cloudfront.ResponseHeadersContentSecurityPolicy(
                content_security_policy=security_policy, override=False
            ),
            content_type_options=cloudfront.ResponseHeadersContentTypeOptions(override=True),
            frame_options=cloudfront.ResponseHeadersFrameOptions(
                frame_option=cloudfront.HeadersFrameOption.DENY, override=True
            ),
            referrer_policy=cloudfront.ResponseHeadersReferrerPolicy(
                referrer_policy=cloudfront.HeadersReferrerPolicy.NO_REFERRER, override=True
            ),
            strict_transport_security=cloudfront.ResponseHeadersStrictTransportSecurity(
                access_control_max_age=Duration.days(365), include_subdomains=False, override=True
            ),
        ),
    )


class ConsoleFiles(Construct):
    """The files of console and documentation in their bucket, with `console.json`, which names the issuer.

    Args:
        bucket: The bucket.
        log: The log group of the function that copies the files.
        settings: The content of console.json.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        bucket: s3.Bucket,
        log: logs.ILogGroup,
        settings: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "files")
        built = s3_assets.Asset(self, "built", path=str(console_files()))
        source = deployment.Source.bucket(built.bucket, built.s3_object_key)
        common = {
            "destination_bucket": bucket,
            # Files of earlier builds stay, because open pages load them.
            "prune": False,
            "retain_on_delete": environment.keeps_data,
            "log_group": log,
            "role": _copier(
                self,
                bucket=bucket,
                log=log,
                assets=built.bucket,
                qualifier=environment.platform.bootstrap_qualifier,
            ),
        }
        hashed = deployment.BucketDeployment(
            self,
            "hashed",
            sources=[source],
            exclude=["*"],
            include=_HASHED,
            cache_control=[
                deployment.CacheControl.max_age(Duration.days(365)),
                deployment.CacheControl.set_public(),
                deployment.CacheControl.immutable(),
            ],
            **common,
        )
        page = deployment.BucketDeployment(
            self,
            "page",
            sources=[source, deployment.Source.json_data("console.json", dict(settings))],
            exclude=_HASHED,
            # The page names the files of its build, so a browser must ask for it each time.
            cache_control=[deployment.CacheControl.no_cache()],
            **common,
        )
        # The page is replaced when the files that it names are there.
        page.node.add_dependency(hashed)
        copying = next(
            each for each in Stack.of(self).node.children if each.node.id.startswith("Custom::CDKBucketDeployment")
        )
        explain(copying, "made by aws-cdk-lib, with the runtime that its code is tested with", "L1")


def _copier(
    scope: Construct, *, bucket: s3.Bucket, log: logs.ILogGroup, assets: s3.IBucket, qualifier: str
) -> iam.IRole:
    """Return the role of the function that copies the files. The permissions that aws-cdk-lib would add to it have
    patterns as actions.
    """
    role = iam.Role(scope, "copier", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    for actions, resource in (
        (("logs:CreateLogStream", "logs:PutLogEvents"), log.log_group_arn),
        (("s3:GetObject",), assets.arn_for_objects("*")),
        (("s3:ListBucket", "s3:GetBucketTagging"), bucket.bucket_arn),
        (("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"), bucket.arn_for_objects("*")),
    ):
        role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=[resource]))
    stack = Stack.of(scope)
    explain(
        role,
        "every file of the console, and the archives of deployments, whose names are digests",
        f"IAM5[Resource::<{stack.get_logical_id(bucket.node.default_child)}.Arn>/*]",
        f"IAM5[Resource::arn:aws:s3:::cdk-{qualifier}-assets-<AWS::AccountId>-{stack.region}/*]",
    )
    return role.without_policy_updates()
