"""The deployment makes the tenants of SES, each with the resources of its senders."""

from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_ses as ses
from aws_cdk.assertions import Template

from infra.cdk.config import Environment
from infra.cdk.examples import PROD, SMALL
from infra.cdk.resources.ses_tenants import ses_tenants
from masscomm.domain.email_settings import read_emails

OWN = {"sender": "news@club7.example", "configuration_set": "c7", "ses_tenant": "t7", "mandatory_ses_tenant": "otp"}


def tenants(environment: Environment, document: dict[str, Any]) -> dict[str, Any]:
    """Return the tenants of SES in a template by their names."""
    stack = Stack(App(), "stack")
    emails = read_emails(document, sender="no-reply@example.com", configuration_set="all")
    configured = ses.ConfigurationSet(stack, "mail", configuration_set_name="all")
    ses_tenants(stack, environment, emails, after=configured)
    found = Template.from_stack(stack).find_resources("AWS::SES::Tenant")
    return {each["Properties"]["TenantName"]: each for each in found.values()}


def test_tenant_is_associated_with_resources_of_its_senders() -> None:
    found = tenants(PROD, {"tenants": {7: OWN | {"categories": {"news": {"sender": "a@club8.example"}}}}})
    resources = {
        name: [str(each["ResourceArn"]).rpartition(":")[2] for each in tenant["Properties"]["ResourceAssociations"]]
        for name, tenant in found.items()
    }
    of_club = [["identity/club7.example", "identity/club8.example", "configuration-set/c7"]] * 2
    assert [[each.removesuffix("']]}") for each in some] for some in resources.values()] == of_club
    assert all(len(tenant["DependsOn"]) == 1 for tenant in found.values()), "the configuration set is made first"


@pytest.mark.parametrize(("environment", "policy"), [(PROD, "RetainExceptOnCreate"), (SMALL, "Delete")])
def test_reputation_is_kept_as_data_is(environment: Environment, policy: str) -> None:
    found = tenants(environment, {"tenants": {7: OWN}})
    assert {name: tenant["DeletionPolicy"] for name, tenant in found.items()} == {"t7": policy, "otp": policy}


def test_empty_file_makes_no_tenant() -> None:
    assert tenants(PROD, {}) == {}
