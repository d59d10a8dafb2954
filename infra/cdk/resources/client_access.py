"""Creates the paths and the permissions of programs outside masscomm that produce to its topics or consume them."""

from collections.abc import Iterable, Mapping

from aws_cdk import CfnOutput
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_msk as msk
from constructs import Construct

from infra.cdk.clients import ClientConfig, ConsumerConfig, sources
from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.kafka import KafkaCluster
from infra.cdk.resources.network import HTTPS, KAFKA_IAM

# What another account needs to connect its VPC privately.
# https://docs.aws.amazon.com/msk/latest/developerguide/mvpc-cluster-owner-action-policy.html
_CONNECTING = ("CreateVpcConnection", "DescribeCluster", "DescribeClusterV2", "GetBootstrapBrokers")


def admit_clients(environment: Environment, groups: Mapping[str, ec2.ISecurityGroup]) -> None:
    """Permit the programs of the configuration to connect to the brokers and to the registry's look-ups."""
    for source, names in sources(environment.clients).items():
        peer = ec2.Peer.security_group_id(source) if source.startswith("sg-") else ec2.Peer.ipv4(source)
        listeners = {"kafka": KAFKA_IAM}
        if environment.existing.registry is None:
            listeners["registry-balancer"] = HTTPS
        for party, port in listeners.items():
            groups[party].add_ingress_rule(peer, ec2.Port.tcp(port), f"from {names}")


class ClientPolicies(Construct):
    """A managed policy for each program, attached to its role if that belongs to the environment's account.

    A role of another account needs a copy of the policy, and the cluster's policy admits it, with exactly the same
    permissions: https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies-cross-account-resource-access.html
    """

    def __init__(self, scope: Construct, *, environment: Environment, kafka: KafkaCluster) -> None:
        super().__init__(scope, "clients")
        admitted: list[iam.PolicyStatement] = []
        for client in environment.clients:
            statements = _statements(client, kafka)
            kind = "consumer" if isinstance(client, ConsumerConfig) else "producer"
            is_here = client.account == (environment.account or client.account)
            policy = iam.ManagedPolicy(
                self,
                f"{kind}-{client.name}",
                managed_policy_name=f"{environment.global_prefix}-{kind}-{client.name}",
                description=f"{client.name} as a {kind} of masscomm's topics",
                statements=statements,
                roles=[iam.Role.from_role_arn(self, f"role-{kind}-{client.name}", client.role_arn)] if is_here else [],
            )
            if isinstance(client, ConsumerConfig):
                explain(
                    policy,
                    "a program names its groups below its prefix",
                    f"IAM5[Resource::{kafka.as_reported('group', f'{client.group_prefix}*', is_same_stack=True)}]",
                )
            if not is_here:
                admitted += _admitting(client, _statements(client, kafka), kafka, environment)
        if admitted:
            msk.CfnClusterPolicy(
                self,
                "cluster-policy",
                cluster_arn=kafka.arn,
                policy=iam.PolicyDocument(statements=admitted).to_json(),
            )
        CfnOutput(self, "bootstrap-servers", value=kafka.bootstrap_servers, description="brokers, for sign-in by IAM")


def _statements(client: ClientConfig, kafka: KafkaCluster) -> list[iam.PolicyStatement]:
    # https://docs.aws.amazon.com/msk/latest/developerguide/iam-access-control-use-cases.html
    if isinstance(client, ConsumerConfig):
        return kafka.statements(reads=client.allowed(), groups=[f"{client.group_prefix}*"])
    return kafka.statements(writes=client.allowed())


def _admitting(
    client: ClientConfig, statements: Iterable[iam.PolicyStatement], kafka: KafkaCluster, environment: Environment
) -> list[iam.PolicyStatement]:
    """Return the statements of the cluster's policy for a program of another account."""
    found = list(statements)
    for statement in found:
        statement.add_arn_principal(client.role_arn)
    if environment.kafka.multi_vpc:
        found.append(
            iam.PolicyStatement(
                principals=[iam.AccountPrincipal(client.account)],
                actions=[f"kafka:{action}" for action in _CONNECTING],
                resources=[kafka.arn],
            )
        )
    return found
