"""Each interface endpoint, which costs money in each zone, has a caller in the VPC."""

from tests.support.cdk.templates import OUTSIDE_THE_VPC, SynthesisedEnvironment, actions, flat, role_statements

# The last part of an endpoint's service → the prefix of the actions that it serves.
SERVED = {
    "secretsmanager": "secretsmanager",
    "kms": "kms",
    "logs": "logs",
    "monitoring": "cloudwatch",
    "xray": "xray",
    "sns": "sns",
    "email": "ses",
    "pinpoint-sms-voice-v2": "sms-voice",
    "glue": "glue",
    "api": "ecr",
    "dkr": "ecr",
}
# Lambda's event pollers call both as the service, in the subnets of the brokers.
# https://docs.aws.amazon.com/lambda/latest/dg/with-msk-cluster-network.html
CALLED_BY_POLLERS = {"lambda", "sts"}


def test_each_endpoint_has_a_caller(prod: SynthesisedEnvironment) -> None:
    outside = {name.replace("_", "") for name in OUTSIDE_THE_VPC}
    called = {
        action.partition(":")[0]
        for policy, statement in role_statements(prod)
        if not any(policy.id.startswith(f"{name}role") for name in outside)
        for action in actions(statement)
    }
    endpoints = {
        flat(each.properties["ServiceName"]).rpartition(".")[2]
        for each in prod.resources("AWS::EC2::VPCEndpoint")
        if each.properties["VpcEndpointType"] == "Interface"
    }
    assert endpoints
    assert {name for name in endpoints if SERVED.get(name) not in called} == CALLED_BY_POLLERS
