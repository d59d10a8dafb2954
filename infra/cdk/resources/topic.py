"""Encrypted SNS topics with a policy for their publisher."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct


def topic(scope: Construct, id: str, *, name: str, key: kms.IKey, publisher: str | None = None) -> sns.Topic:
    """An encrypted topic that one publisher of this account may publish to, over TLS only.

    Its own policy replaces SNS's default policy, which would let the account publish. The Allow is therefore necessary:
    with the Deny for plain HTTP alone no message would be published.

    Args:
        scope: the construct that it belongs to.
        id: its construct id.
        name: its name.
        key: encrypts its messages.
        publisher: the principal of an AWS service; None: the account itself, for example for events of a platform
            application.
    """
    account = Stack.of(scope).account
    if publisher is None:
        principal, condition = iam.AnyPrincipal(), {"aws:SourceOwner": account}
    else:
        principal, condition = iam.ServicePrincipal(publisher), {"aws:SourceAccount": account}
    made = sns.Topic(scope, id, topic_name=name, master_key=key, enforce_ssl=True)
    made.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[principal],
            actions=["sns:Publish"],
            resources=[made.topic_arn],
            conditions={"StringEquals": condition},
        )
    )
    return made
