"""The console's distribution, and rules of CloudFront and AWS WAF that only a deployment would check.

https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/ is DEVELOPER_GUIDE in the tests' docstrings.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.cdk import code
from infra.cdk.examples import PROD
from infra.cdk.resources.console import _INDEX_OF_FOLDER, _NAME_THE_VIEWER
from local.devstack.config import ROOT
from masscomm.http.console_headers import (
    DOCS_SECURITY_POLICY,
    REFERENCE_SECURITY_POLICY,
    content_security_policy,
)
from tests.support.cdk.templates import SynthesisedEnvironment, actions, flat, role_statements, statements, targets

assert PROD.console is not None
assert PROD.api.people is not None
CONSOLE, PEOPLE = PROD.console, PROD.api.people


@pytest.fixture
def distribution(prod: SynthesisedEnvironment) -> dict[str, Any]:
    (found,) = prod.resources("AWS::CloudFront::Distribution")
    config: dict[str, Any] = found.properties["DistributionConfig"]
    return config


def behaviour(distribution: dict[str, Any], pattern: str) -> dict[str, Any]:
    """Return the settings of the distribution for the paths of a pattern."""
    (found,) = [each for each in distribution["CacheBehaviors"] if each["PathPattern"] == pattern]
    return dict(found)


def edge_function(prod: SynthesisedEnvironment, settings: dict[str, Any]) -> str:
    """Return the code that changes the requests of viewers.

    A function has at most 10 kB, and a name of 64 characters: DEVELOPER_GUIDE/cloudfront-limits.html
    """
    (association,) = settings["FunctionAssociations"]
    assert association["EventType"] == "viewer-request"
    ((id, _),) = [association["FunctionARN"]["Fn::GetAtt"]]
    (function,) = [each for each in prod.resources("AWS::CloudFront::Function") if each.id == id]
    assert len(function.properties["Name"]) <= 64
    assert len(function.properties["FunctionCode"]) <= 10_240
    return str(function.properties["FunctionCode"])


def changed_request(code: str, event: dict[str, Any]) -> Any:
    """Return what a function of the edge returns for an event."""
    done = subprocess.run(
        ["node", "-e", f"{code}\nconsole.log(JSON.stringify(handler({json.dumps(event)})))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_an_environment_without_console_has_no_distribution(synthesised: dict[str, SynthesisedEnvironment]) -> None:
    assert list(synthesised["small"].resources("AWS::CloudFront::Distribution")) == []
    assert "console" not in synthesised["small"].templates()


def test_the_distribution_accepts_tls_1_2_at_its_own_domain(distribution: dict[str, Any]) -> None:
    """With CloudFront's certificate the minimum is TLSv1, whatever is set; a certificate is in us-east-1.

    DEVELOPER_GUIDE/DownloadDistValuesGeneral.html (security policy), DEVELOPER_GUIDE/cnames-and-https-requirements.html
    """
    assert distribution["Aliases"] == [CONSOLE.domain]
    certificate = distribution["ViewerCertificate"]
    assert certificate["MinimumProtocolVersion"] == "TLSv1.2_2021"
    assert certificate["SslSupportMethod"] == "sni-only"
    assert certificate["AcmCertificateArn"].split(":")[3] == "us-east-1"


def test_files_are_read_by_the_distribution_alone(prod: SynthesisedEnvironment, distribution: dict[str, Any]) -> None:
    """DEVELOPER_GUIDE/private-content-restricting-access-to-s3.html"""
    (files,) = [each for each in distribution["Origins"] if "S3OriginConfig" in each]
    assert files["OriginAccessControlId"]
    assert files["S3OriginConfig"] == {"OriginAccessIdentity": ""}
    (control,) = prod.resources("AWS::CloudFront::OriginAccessControl")
    settings = control.properties["OriginAccessControlConfig"]
    assert (settings["SigningBehavior"], settings["SigningProtocol"]) == ("always", "sigv4")
    (read,) = [
        statement
        for policy, statement in statements(prod, "AWS::S3::BucketPolicy")
        if policy.stack == "console" and "s3:GetObject" in actions(statement)
    ]
    assert read["Principal"] == {"Service": "cloudfront.amazonaws.com"}
    assert ":distribution/" in flat(read["Condition"]["StringEquals"]["AWS:SourceArn"])


def test_the_api_is_served_uncached_with_every_header(
    prod: SynthesisedEnvironment, distribution: dict[str, Any]
) -> None:
    """CachingDisabled, and AllViewerExceptHostHeader, which is for API Gateway's host name.

    DEVELOPER_GUIDE/using-managed-cache-policies.html, DEVELOPER_GUIDE/using-managed-origin-request-policies.html
    """
    api = behaviour(distribution, "/v1/*")
    assert api["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
    assert api["OriginRequestPolicyId"] == "b689b0a8-53d0-40ab-baf2-68738e2966ac"
    assert set(api["AllowedMethods"]) == {"GET", "HEAD", "OPTIONS", "PUT", "PATCH", "POST", "DELETE"}
    assert api["ViewerProtocolPolicy"] == "https-only"
    (origin,) = [each for each in distribution["Origins"] if each["Id"] == api["TargetOriginId"]]
    assert origin["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only"
    assert flat(origin["OriginPath"]).startswith("/")
    # Every route of the API, the unsubscribe links included.
    paths = {
        route.partition(" ")[2]
        for route in json.loads((ROOT / "docs" / "openapi" / "masscomm.json").read_text())["paths"]
    }
    assert all(path.startswith("/v1/") for path in paths if path)
    (stage,) = (each for each in prod.resources("AWS::ApiGateway::Stage") if each.stack == "api")
    assert stage.properties["StageName"]


def test_errors_are_neither_cached_nor_replaced_by_a_page(distribution: dict[str, Any]) -> None:
    """CloudFront keeps an error for 10 s by default, even of a behaviour without caching and of responses with
    `no-store`; one caller's 404 or 503 would be another's.

    DEVELOPER_GUIDE/custom-error-pages-expiration.html, DEVELOPER_GUIDE/HTTPStatusCodes.html
    """
    errors = {each["ErrorCode"]: each for each in distribution["CustomErrorResponses"]}
    assert errors.keys() == {400, 403, 404, 405, 414, 500, 501, 502, 503, 504}
    for each in errors.values():
        assert each["ErrorCachingMinTTL"] == 0
        assert "ResponsePagePath" not in each
        assert "ResponseCode" not in each


def test_the_root_is_the_page_and_its_routes_are_behind_a_hash(distribution: dict[str, Any]) -> None:
    assert distribution["DefaultRootObject"] == "index.html"
    assert "createWebHashHistory()" in (ROOT / "web" / "src" / "router.ts").read_text()


def test_every_response_has_the_security_headers(prod: SynthesisedEnvironment, distribution: dict[str, Any]) -> None:
    """DEVELOPER_GUIDE/understanding-response-headers-policies.html"""
    policies = {each.id: each for each in prod.resources("AWS::CloudFront::ResponseHeadersPolicy")}
    reference, docs = "/docs/api-reference/*", "/docs*"
    api_policy = content_security_policy([PEOPLE.issuer])
    wanted = {"/v1/*": api_policy, reference: REFERENCE_SECURITY_POLICY, docs: DOCS_SECURITY_POLICY, "": api_policy}
    # The first pattern that matches applies.
    assert [each["PathPattern"] for each in distribution["CacheBehaviors"]] == ["/v1/*", reference, docs]
    for pattern, security_policy in wanted.items():
        settings = behaviour(distribution, pattern) if pattern else distribution["DefaultCacheBehavior"]
        policy = policies[settings["ResponseHeadersPolicyId"]["Ref"]]
        _assert_security_headers(policy.properties["ResponseHeadersPolicyConfig"], security_policy)
    assert f"connect-src 'self' {PEOPLE.issuer};" in api_policy


def _assert_security_headers(config: dict[str, Any], security_policy: str) -> None:
    headers = config["SecurityHeadersConfig"]
    csp = headers["ContentSecurityPolicy"]
    assert csp["ContentSecurityPolicy"] == security_policy
    # The page of unsubscribe links has a policy of its own.
    assert csp["Override"] is False
    assert headers["StrictTransportSecurity"]["AccessControlMaxAgeSec"] == 31_536_000
    assert headers["FrameOptions"] == {"FrameOption": "DENY", "Override": True}
    assert headers["ContentTypeOptions"] == {"Override": True}


@pytest.mark.parametrize("forbidden", ["unsafe", "*", "data:", "http:"])
def test_the_policy_permits_nothing_inline_and_no_other_host(forbidden: str) -> None:
    assert forbidden not in content_security_policy([PEOPLE.issuer])


def test_access_logs_go_to_a_bucket_with_access_control_lists(
    prod: SynthesisedEnvironment, distribution: dict[str, Any]
) -> None:
    """CloudFront's standard logs cannot be written where access control lists are disabled.

    DEVELOPER_GUIDE/standard-logging-legacy-s3.html
    """
    bucket = flat(distribution["Logging"]["Bucket"]).removeprefix("{").partition(".")[0]
    (log,) = [each for each in prod.resources("AWS::S3::Bucket") if (each.stack, each.id) == ("console", bucket)]
    (rule,) = log.properties["OwnershipControls"]["Rules"]
    assert rule["ObjectOwnership"] == "BucketOwnerPreferred"


def _deployments(prod: SynthesisedEnvironment) -> dict[str, dict[str, Any]]:
    found = [each for each in prod.resources("Custom::CDKBucketDeployment") if each.stack == "console"]
    return {"page" if "page" in each.id else "hashed": {**each.attributes, **each.properties} for each in found}


def test_only_files_with_a_digest_are_kept_by_browsers(prod: SynthesisedEnvironment) -> None:
    deployments = _deployments(prod)
    hashed, page = deployments["hashed"], deployments["page"]
    assert (hashed["Exclude"], hashed["Include"]) == (["*"], ["assets/*", "docs/assets/*"])
    assert "immutable" in hashed["SystemMetadata"]["cache-control"]
    assert page["Exclude"] == ["assets/*", "docs/assets/*"]
    assert page["SystemMetadata"]["cache-control"] == "no-cache"
    assert any("hashed" in each for each in page["DependsOn"])
    assert hashed["Prune"] == page["Prune"] == "false" or hashed["Prune"] is page["Prune"] is False


def test_console_json_names_the_issuer_of_the_environment(prod: SynthesisedEnvironment) -> None:
    wanted = {
        "issuer": PEOPLE.issuer,
        "client_id": CONSOLE.client_id,
        "scope": CONSOLE.scope,
        "redirect_uri": f"https://{CONSOLE.domain}/",
        "roles_claim": PEOPLE.roles_claim,
        "clubs_claim": PEOPLE.clubs_claim,
    }
    found = [json.loads(path.read_text()) for path in prod.folder.glob("asset.*/console.json")]
    assert found == [wanted]


def test_the_copying_function_reaches_these_files_only(prod: SynthesisedEnvironment) -> None:
    granted = {
        action: targets(statement)
        for policy, statement in role_statements(prod)
        if policy.stack == "console"
        for action in actions(statement)
    }
    assert {action for action in granted if action.startswith("s3:")} == {
        *("s3:GetObject", "s3:ListBucket", "s3:GetBucketTagging"),
        *("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
    }
    assert all("consolefiles" in target for target in granted["s3:PutObject"])


def test_viewers_of_the_console_are_limited_by_their_own_address(prod: SynthesisedEnvironment) -> None:
    """The source of their requests is CloudFront, and a rule by FORWARDED_IP leaves requests without the header out.

    https://docs.aws.amazon.com/waf/latest/APIReference/API_RateBasedStatement.html
    https://docs.aws.amazon.com/waf/latest/APIReference/API_ForwardedIPConfig.html (pattern of the name)
    """
    (acl,) = (each for each in prod.resources("AWS::WAFv2::WebACL") if each.stack == "api")
    rules = {
        rule["Name"]: rule["Statement"]["RateBasedStatement"]
        for rule in acl.properties["Rules"]
        if "RateBasedStatement" in rule["Statement"]
    }
    assert list(rules) == ["requests-an-address", "requests-a-viewer", "requests-an-edge"]
    viewer = rules["requests-a-viewer"]
    assert viewer["AggregateKeyType"] == "FORWARDED_IP"
    header = viewer["ForwardedIPConfig"]["HeaderName"]
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,255}", header)
    assert viewer["ForwardedIPConfig"]["FallbackBehavior"] == "MATCH"
    without = rules["requests-an-address"]["ScopeDownStatement"]["NotStatement"]["Statement"]["SizeConstraintStatement"]
    assert without["FieldToMatch"]["SingleHeader"] == {"Name": header}
    assert rules["requests-an-address"]["Limit"] == viewer["Limit"] < rules["requests-an-edge"]["Limit"]
    # Callers can send the header themselves, with another address each time.
    assert "ScopeDownStatement" not in rules["requests-an-edge"]


def test_the_edge_function_overwrites_the_address_of_the_viewer(
    prod: SynthesisedEnvironment, distribution: dict[str, Any]
) -> None:
    """DEVELOPER_GUIDE/functions-event-structure.html (event.viewer.ip)"""
    edge = edge_function(prod, behaviour(distribution, "/v1/*"))
    assert edge == _NAME_THE_VIEWER
    event = {"viewer": {"ip": "198.51.100.7"}, "request": {"headers": {"x-viewer-address": {"value": "1.2.3.4"}}}}
    assert changed_request(edge, event) == {"headers": {"x-viewer-address": {"value": "198.51.100.7"}}}


@pytest.mark.parametrize("pattern", ["/docs*", "/docs/api-reference/*"])
def test_a_folder_of_the_documentation_has_an_index(
    pattern: str, prod: SynthesisedEnvironment, distribution: dict[str, Any]
) -> None:
    """S3's REST endpoint, which the origin access control needs, has no index documents, and the default root object
    is that of the root only.

    DEVELOPER_GUIDE/DefaultRootObject.html, DEVELOPER_GUIDE/functions-event-structure.html (uri, response)
    DEVELOPER_GUIDE/example_cloudfront_functions_url_rewrite_single_page_apps_section.html
    """
    edge = edge_function(prod, behaviour(distribution, pattern))
    assert edge == _INDEX_OF_FOLDER
    files = {
        "/docs/": "/docs/index.html",
        "/docs/decisions/": "/docs/decisions/index.html",
        "/docs/sending.html": "/docs/sending.html",
        "/docs/assets/app.js": "/docs/assets/app.js",
    }
    for path, file in files.items():
        assert changed_request(edge, {"request": {"uri": path}}) == {"uri": file}
    redirect = changed_request(edge, {"request": {"uri": "/docs"}})
    assert (redirect["statusCode"], redirect["headers"]["location"]["value"]) == (301, "/docs/")


def test_the_files_are_those_of_console_and_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dist/index.html", "dist/assets/a.js", "dist-docs/index.html", "dist-docs/decisions/index.html"):
        (tmp_path / "web" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "web" / name).write_text(name)
    monkeypatch.setattr(code, "ROOT", tmp_path)
    monkeypatch.setenv("MASSCOMM_REQUIRE_PACKAGES", "1")
    folder = code.console_files.__wrapped__()
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert found == {
        "index.html": "dist/index.html",
        "assets/a.js": "dist/assets/a.js",
        "docs/index.html": "dist-docs/index.html",
        "docs/decisions/index.html": "dist-docs/decisions/index.html",
    }
    (tmp_path / "web" / "dist-docs" / "index.html").unlink()
    with pytest.raises(code.NotPackaged, match="npm run docs"):
        code.console_files.__wrapped__()
