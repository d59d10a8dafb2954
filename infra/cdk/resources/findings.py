"""Acknowledges findings of cdk-nag's AwsSolutions rules, with a reason, in the code that creates the resource."""

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def explain(construct: IConstruct, reason: str, *rules: str) -> None:
    """Acknowledge findings about a construct and its children.

    Args:
        construct: The construct with the findings.
        reason: The reason why the findings are acceptable.
        rules: The rules without the prefix `AwsSolutions-`, such as `L1`, or single findings, such as
            `IAM5[Resource::*]`.
    """
    Validations.of(construct).acknowledge(*(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason) for rule in rules))
