"""The configuration rejects settings that AWS would reject."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack

from infra.cdk.config import ApiConfig, KafkaConfig, MailboxConfig, OpenSearchConfig, PeopleConfig, placeholders
from infra.cdk.examples import ENVIRONMENTS, PROD
from infra.cdk.profiles import PROFILES
from infra.cdk.stacks.grants import _provider


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"zones": ("a", "b")}, "kafka.brokers is 3, no multiple of the 2 zones"),
        ({"opensearch": OpenSearchConfig(data_nodes=4)}, "opensearch.data_nodes is 4"),
        ({"opensearch": OpenSearchConfig(dedicated_masters=1)}, "dedicated_masters is 0 or 3"),
        ({"kafka": KafkaConfig(min_insync_replicas=3)}, "min_insync_replicas < replication_factor"),
        ({"kafka": KafkaConfig(replication_factor=4)}, "replication_factor <= brokers"),
        ({"spark": replace(PROD.spark, archive=0)}, "spark.archive is at least 1"),
        ({"broadcast_queues": 0}, "broadcast_queues is from 1 to 4"),
        ({"broadcast_queues": 5}, "broadcast_queues is from 1 to 4"),
        ({"broadcast_queues": 3, "closing_queues": 2}, "closing_queues is from 0 to 4 minus broadcast_queues"),
        ({"log_days": 31}, "log_days is one of 14, 30, 90, 365"),
        ({"trace_ratio": 1.5}, "trace_ratio"),
        ({"receipts_percent": 101}, "receipts_percent"),
        ({"sender": "Club, Inc <no-reply@club.example>"}, "sender has no address"),
        ({"sender": "no-reply"}, "sender has no address"),
        ({"name": "production"}, "at most 9 small letters"),
    ],
)
def test_invalid_setting_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PROD, **changed)


def test_environments_can_run_in_one_account() -> None:
    environments = list(ENVIRONMENTS.values())
    for values in (
        [each.cidr for each in environments],
        [each.registry.domain for each in environments],
        [each.monolith.secret_name for each in environments],
    ):
        assert len(set(values)) == len(environments), values


MAILBOX = MailboxConfig(address="unsubscribe@mail.club.example", rule_set="inbound")


@pytest.mark.guarantee("unsubscribe.way_out_of_a_category")
def test_protected_environment_needs_a_way_to_unsubscribe() -> None:
    with pytest.raises(ValueError, match="e-mails of newsletter need unsubscribe_url or unsubscribe_mailbox"):
        replace(PROD, unsubscribe_url=None)
    assert replace(PROD, unsubscribe_url=None, unsubscribe_mailbox=MAILBOX)
    assert replace(PROD, unsubscribe_url=None, protected=False)


def test_mailbox_without_a_plain_address_is_refused() -> None:
    with pytest.raises(ValueError, match="address: UNSUBSCRIBE_MAILBOX must be"):
        MailboxConfig(address="Club <unsubscribe@club.example>", rule_set="inbound")


def test_permission_names_the_address_of_a_named_sender() -> None:
    """SES compares the address alone; e-mails of another sender would wait for a permission until they expire."""
    environment = replace(PROD, sender="Müller <no-reply@club.example>")
    (statement,) = [
        each.to_statement_json()
        for each in _provider(PROFILES["delivery"], Stack(App(), "stack"), environment, ["arn"])
        if "ses:SendRawEmail" in each.actions
    ]
    assert set(statement["Action"]) == {"ses:SendEmail", "ses:SendRawEmail"}, "of a raw message, SES checks both"
    assert statement["Condition"] == {"StringEquals": {"ses:FromAddress": "no-reply@club.example"}}
    assert {str(each).rpartition("identity/")[2] for each in statement["Resource"]} >= {"club.example"}


def test_permission_names_senders_and_tenants_of_ses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "email.yaml"
    file.write_text(
        "tenants: {7: {sender: news@club7.example, configuration_set: c7, ses_tenant: t7, mandatory_ses_tenant: otp}}"
    )
    monkeypatch.setenv("MASSCOMM_EMAIL", str(file))
    (statement,) = [
        each.to_statement_json()
        for each in _provider(PROFILES["delivery"], Stack(App(), "stack"), PROD, ["arn"])
        if "ses:SendEmail" in each.actions
    ]
    assert statement["Condition"] == {
        "StringEquals": {"ses:FromAddress": [PROD.sender_address, "news@club7.example"]},
        "StringEqualsIfExists": {"ses:TenantName": ["t7", "otp"]},
    }
    assert [str(each).rpartition("set/")[2] for each in statement["Resource"][-2:]] == ["masscomm-prod", "c7"]


@pytest.mark.parametrize("given", [{"domain": "api.masscomm.example"}, {"certificate_arn": "arn"}])
def test_domain_without_certificate_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="both domain and certificate_arn, or neither"):
        ApiConfig(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"certificate_arn": "arn:aws:acm:eu-central-1:1:certificate/2"}, "certificate_arn is in us-east-1"),
        ({"web_acl_arn": "arn:aws:wafv2:eu-central-1:1:regional/webacl/2"}, "web_acl_arn is in us-east-1"),
        ({"sign_in_origins": ("https://host/path",)}, "no origin"),
        ({"sign_in_origins": ("http://host",)}, "no origin"),
    ],
)
def test_console_that_cloudfront_would_refuse_is_refused(changed: dict[str, Any], message: str) -> None:
    assert PROD.console is not None
    with pytest.raises(ValueError, match=message):
        replace(PROD.console, **changed)


def test_console_without_an_issuer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs api\.people"):
        replace(PROD, api=ApiConfig())


def test_setting_with_a_real_host_is_not_a_placeholder() -> None:
    people = PeopleConfig(issuer="https://sign-in.riverside.org", keys_url="https://sign-in.riverside.org/keys")
    assert "api.people.issuer" not in placeholders(replace(PROD, api=ApiConfig(people=people)))


@pytest.mark.parametrize(
    ("rate", "address"), [("rate", "requests_an_address"), ("incoming_rate", "incoming_an_address")]
)
def test_firewall_permits_the_requests_of_a_usage_plan(rate: str, address: str) -> None:
    """The servers of a company share one address, and the firewall counts over five minutes.

    https://docs.aws.amazon.com/waf/latest/APIReference/API_RateBasedStatement.html
    """
    least: int = getattr(ApiConfig(), rate) * 300
    enough: dict[str, Any] = {address: least}
    too_few: dict[str, Any] = {address: least - 1}
    with pytest.raises(ValueError, match=f"{address} is at least {least}"):
        ApiConfig(**too_few)
    assert getattr(ApiConfig(**enough), address) == least
