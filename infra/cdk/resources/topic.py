"""SNS topics, encrypted, and who may publish to them."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct


def topic(scope: Construct, id: str, *, name: str, key: kms.IKey, publisher: str | None = None) -> sns.Topic:
    """A topic that one service of this account publishes to, over TLS only.

    publisher: the service's principal; None: what the account itself publishes, an event of a platform application for
    example. A topic with a policy of its own has no default policy any more, which lets the account publish: without an
    Allow the Deny for plain HTTP stands alone, and nothing is ever published.
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
