"""Findings of AwsSolutions that stay, each with its reason, said where the resource is made."""

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def explain(construct: IConstruct, reason: str, *rules: str) -> None:
    """Why these rules' findings about the construct, and what it holds, are right as they are.

    rules: without their prefix, as `L1`; a finding of its own as `IAM5[Resource::*]`.
    """
    Validations.of(construct).acknowledge(*(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason) for rule in rules))
