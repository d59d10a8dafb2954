"""Creates the tenants of SES that schemas/email.yaml names, each associated with its senders' domains and configuration
sets.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ses-tenant.html
"""

from aws_cdk import Stack
from aws_cdk import aws_ses as ses
from constructs import Construct, IDependable

from infra.cdk.config import Environment
from infra.cdk.resources.logs import removal
from masscomm.domain.email_settings import EmailTable


def ses_tenants(scope: Construct, environment: Environment, emails: EmailTable, after: IDependable) -> None:
    """Create the tenants after the configuration set of the environment. They are kept as data is: another tenant would
    begin without a reputation.
    """
    stack = Stack.of(scope)
    for name in emails.ses_tenants:
        origins = [each for each in emails.origins if each.ses_tenant == name]
        identities = [("identity", each.address.rpartition("@")[2]) for each in origins]
        sets = [("configuration-set", each.configuration_set) for each in origins if each.configuration_set]
        tenant = ses.CfnTenant(
            scope,
            f"tenant-{name}",
            tenant_name=name,
            resource_associations=[
                ses.CfnTenant.ResourceAssociationProperty(
                    resource_arn=stack.format_arn(service="ses", resource=resource, resource_name=resource_name)
                )
                for resource, resource_name in dict.fromkeys((*identities, *sets))
            ],
        )
        tenant.apply_removal_policy(removal(environment))
        tenant.node.add_dependency(after)
