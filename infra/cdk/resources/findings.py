"""Findings of AwsSolutions that stay, each with its reason, said where the resource is made."""

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct


def explain(construct: IConstruct, reason: str, *rules: str) -> None:
    """Why these rules' findings about the construct, and what it holds, are right as they are.

    rules: without their prefix, as `L1`; a finding of its own as `IAM5[Resource::*]`.
    """
    Validations.of(construct).acknowledge(*(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason) for rule in rules))


def explain_custom_resources(stack: Stack) -> None:
    """CDK's own function behind AwsCustomResource: one a stack, runtime and role are the library's."""
    for child in stack.node.children:
        if child.node.id.startswith("AWS679f53fac002430cb0da5b7982bd2287"):
            explain(child, "made by aws-cdk-lib: it may write its log and ask what its resource names", "L1", _BASIC)


_BASIC = "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]"
