"""Creates encrypted SNS topics with a policy for their publisher."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct


def topic(scope: Construct, id: str, *, name: str, key: kms.IKey, publisher: str | None = None) -> sns.Topic:
    """Return an encrypted SNS topic to which one publisher of this account may publish, over TLS only.

    The topic's own policy replaces SNS's default policy, which would permit the account to publish. Therefore the Allow
    is necessary: with only the Deny for plain HTTP, no message could be published.

    Args:
        scope: The construct that the topic belongs to.
        id: The construct id of the topic.
        name: The name of the topic.
        key: The KMS key that encrypts its messages.
        publisher: The principal of an AWS service; None: the account itself, for example for events of a platform
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
