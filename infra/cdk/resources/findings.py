"""Acknowledgement of AwsSolutions findings, with a reason, at the code that creates the resource."""

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def explain(construct: IConstruct, reason: str, *rules: str) -> None:
    """Acknowledge findings about a construct and its children.

    Args:
        construct: the construct with the findings.
        reason: why they are acceptable.
        rules: rules without the prefix `AwsSolutions-`, such as `L1`, or single findings, such as `IAM5[Resource::*]`.
    """
    Validations.of(construct).acknowledge(*(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason) for rule in rules))
