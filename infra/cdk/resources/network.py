"""Creates the isolated VPC, its endpoints for AWS services, and the permitted connections between security groups."""

from dataclasses import dataclass

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.cdk.config import DIRECTORY_STATE, REGISTRY_WRITES, Environment
from infra.cdk.resources.logs import log_group

HTTPS = 443
KAFKA_IAM = 9098
POSTGRES = 5432
REGISTRY = 8443

# The parties of the network; each has its own security group.
PARTIES = (
    *("functions", "kafka", "directory", "database", "proxy", "connect", "spark", "erasure"),
    *("registry-balancer", "registry", "registry-database"),
    # The tasks that run infra.provision, and commands of operators.
    *("provisioning", "operators"),
    "directory-state",
)

# Those of them that only the environment's own registry has.
_REGISTRY = ("registry", "registry-database")

# The permitted connections: (source, destination, port). Security groups refuse all other traffic on both sides.
FLOWS = (
    ("functions", "kafka", KAFKA_IAM),
    ("functions", "directory", HTTPS),
    ("functions", "registry-balancer", HTTPS),
    ("connect", "kafka", KAFKA_IAM),
    ("spark", "kafka", KAFKA_IAM),
    ("spark", "database", POSTGRES),
    ("spark", "registry-balancer", HTTPS),
    ("erasure", "directory", HTTPS),
    ("erasure", "database", POSTGRES),
    ("erasure", "registry-balancer", HTTPS),
    ("registry-balancer", "registry", REGISTRY),
    ("provisioning", "directory", HTTPS),
    ("provisioning", "database", POSTGRES),
    ("provisioning", "registry-balancer", REGISTRY_WRITES),
    ("operators", "kafka", KAFKA_IAM),
    ("operators", "directory", HTTPS),
    ("operators", "registry-balancer", HTTPS),
    # Each task of directory_state has a port of the load balancer (flows).
    ("registry-balancer", "directory-state", DIRECTORY_STATE),
    ("directory-state", "kafka", KAFKA_IAM),
    ("directory-state", "directory", HTTPS),
    ("directory-state", "registry-balancer", HTTPS),
    # Lambda's event pollers run in the security group of the Kafka cluster itself.
    ("kafka", "kafka", KAFKA_IAM),
)
# The connections to the databases, by whether there is a proxy, and by whether the registry has an instance of its own.
_TO_METRICS = {
    True: (("functions", "proxy", POSTGRES), ("proxy", "database", POSTGRES)),
    False: (("functions", "database", POSTGRES),),
}
_TO_REGISTRY_DATA = {
    True: (("registry", "registry-database", POSTGRES), ("provisioning", "registry-database", POSTGRES)),
    False: (("registry", "database", POSTGRES),),
}
CALLERS_OF_AWS = (
    *("functions", "kafka", "registry", "connect", "spark", "erasure", "provisioning", "operators"),
    "directory-state",
)

_ENDPOINTS = {
    "secrets": ec2.InterfaceVpcEndpointAwsService.SECRETS_MANAGER,
    "kms": ec2.InterfaceVpcEndpointAwsService.KMS,
    "logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    # operations_handler reads the states of alarms.
    "monitoring": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING,
    "xray": ec2.InterfaceVpcEndpointAwsService.XRAY,
    # delivery and device_registrar use SNS.
    "sns": ec2.InterfaceVpcEndpointAwsService.SNS,
    "email": ec2.InterfaceVpcEndpointAwsService.EMAIL,
    "sms": ec2.InterfaceVpcEndpointAwsService.PINPOINT_SMS_VOICE_V2,
    # The event pollers, which run in the cluster's subnets, invoke Lambda.
    "lambda": ec2.InterfaceVpcEndpointAwsService.LAMBDA_,
    # The Spark jobs commit to the archive's table.
    "glue": ec2.InterfaceVpcEndpointAwsService.GLUE,
    "sts": ec2.InterfaceVpcEndpointAwsService.STS,
    # The registry's container image is pulled from ECR.
    "ecr": ec2.InterfaceVpcEndpointAwsService.ECR,
    "ecr-docker": ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
}


# The subnets of the NAT gateway, in which nothing else is.
_NAT_SUBNETS = ec2.SubnetConfiguration(
    name="nat", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=28, map_public_ip_on_launch=False
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place of a resource in the network."""

    vpc: ec2.IVpc
    subnets: ec2.SubnetSelection
    group: ec2.ISecurityGroup

    @property
    def subnet_ids(self) -> list[str]:
        return self.vpc.select_subnets(subnet_type=self.subnets.subnet_type).subnet_ids


def flows(environment: Environment) -> tuple[tuple[str, str, int], ...]:
    """Return the permitted connections of an environment."""
    database, postgres = environment.database, environment.existing.postgres
    state = environment.directory_state
    ports_of_tasks = () if state is None else state.ports
    found = (
        *FLOWS,
        *_TO_METRICS[database.proxy],
        *_TO_REGISTRY_DATA[database.registry_instance_type is not None],
        *(("functions", "registry-balancer", port) for port in ports_of_tasks),
    )
    ports = {} if postgres is None else {"database": postgres.port}
    if environment.existing.registry is not None:
        ports["registry-balancer"] = HTTPS
    known = parties(environment)
    return tuple(
        (source, destination, ports.get(destination, port))
        for source, destination, port in found
        if source in known and destination in known
    )


def parties(environment: Environment) -> tuple[str, ...]:
    """Return the parties of an environment."""
    absent = set() if environment.has("cdc") else {"connect"}
    if environment.directory_state is None:
        absent.add("directory-state")
    registry = environment.existing.registry
    if registry is not None:
        absent |= {*_REGISTRY, *(["registry-balancer"] if registry.security_group is None else [])}
    return tuple(party for party in PARTIES if party not in absent)


def _existing_groups(environment: Environment) -> dict[str, str]:
    """Return the ids of the organisation's security groups by party."""
    existing = environment.existing
    servers = {
        "kafka": existing.kafka,
        "directory": existing.opensearch,
        "database": existing.postgres,
        "registry-balancer": existing.registry,
    }
    groups = {party: server.security_group for party, server in servers.items() if server is not None}
    return {party: group for party, group in groups.items() if group is not None}


class Network(Construct):
    """A VPC with one private subnet in each zone. Without a NAT gateway, only services with an endpoint are reachable.

    Attributes:
        vpc, subnets: The VPC and the subnets of all resources of the environment.
        groups: The security group of each of PARTIES.
    """

    def __init__(self, scope: Construct, *, environment: Environment, key: kms.IKey) -> None:
        super().__init__(scope, "network")
        private = ec2.SubnetType.PRIVATE_WITH_EGRESS if environment.nat else ec2.SubnetType.PRIVATE_ISOLATED
        self.subnets = ec2.SubnetSelection(subnet_type=private)
        self.vpc = self._vpc(environment, key, private)
        self.groups = {party: self._group(party, environment) for party in parties(environment)}
        for source, destination, port in flows(environment):
            self._allow(source, self.groups[destination], port)
        for party in ("spark", "erasure"):
            self._allow_all_within(party)
        for party in ("connect", "provisioning") if environment.has("cdc") else ():
            self.groups[party].add_egress_rule(
                ec2.Peer.ipv4(environment.monolith.cidr), ec2.Port.tcp(environment.monolith.port), "the monolith"
            )
        self._endpoints(environment)

    def _vpc(self, environment: Environment, key: kms.IKey, private: ec2.SubnetType) -> ec2.IVpc:
        existing = environment.existing.vpc
        zones = [environment.region + zone for zone in environment.zones]
        if existing is not None:
            return ec2.Vpc.from_vpc_attributes(
                self,
                "vpc",
                vpc_id=existing.id,
                vpc_cidr_block=environment.cidr,
                availability_zones=zones,
                isolated_subnet_ids=list(existing.subnet_ids),
            )
        return ec2.Vpc(
            self,
            "vpc",
            vpc_name=environment.prefix,
            ip_addresses=ec2.IpAddresses.cidr(environment.cidr),
            availability_zones=zones,
            nat_gateways=int(environment.nat),
            subnet_configuration=[
                ec2.SubnetConfiguration(name="private", subnet_type=private, cidr_mask=20),
                *([_NAT_SUBNETS] if environment.nat else []),
            ],
            # No resource uses the default security group, and the custom resource that restricts it would need ec2:*.
            restrict_default_security_group=False,
            flow_logs={
                "rejected": ec2.FlowLogOptions(
                    traffic_type=ec2.FlowLogTrafficType.REJECT,
                    destination=ec2.FlowLogDestination.to_cloud_watch_logs(
                        log_group(self, "flow-log", environment=environment, key=key)
                    ),
                )
            },
        )

    def place(self, party: str) -> Place:
        """Return the place of one of PARTIES."""
        return Place(vpc=self.vpc, subnets=self.subnets, group=self.groups[party])

    def _group(self, party: str, environment: Environment) -> ec2.ISecurityGroup:
        id = _existing_groups(environment).get(party)
        if id is not None:
            return ec2.SecurityGroup.from_security_group_id(self, party, id, allow_all_outbound=False)
        return ec2.SecurityGroup(
            self,
            party,
            vpc=self.vpc,
            description=f"{environment.prefix} {party}",
            allow_all_outbound=False,
        )

    def _allow(self, source: str, group: ec2.ISecurityGroup, port: int) -> None:
        group.add_ingress_rule(self.groups[source], ec2.Port.tcp(port), f"from {source}")
        self.groups[source].add_egress_rule(group, ec2.Port.tcp(port), f"port {port}")

    def _allow_all_within(self, party: str) -> None:
        group = self.groups[party]
        group.add_ingress_rule(group, ec2.Port.all_tcp(), "driver and executors")
        group.add_egress_rule(group, ec2.Port.all_tcp(), "driver and executors")

    def _endpoints(self, environment: Environment) -> None:
        existing = environment.existing.vpc
        group: ec2.ISecurityGroup | None = None
        if existing is None:
            self._gateway_endpoints(environment)
            if not environment.nat:
                group = self._group("endpoints", environment)
                self._interface_endpoints(group)
        elif existing.endpoints_group is not None:
            group = ec2.SecurityGroup.from_security_group_id(self, "endpoints", existing.endpoints_group)
        way = "the NAT gateway" if environment.nat else "endpoints"
        for party in (each for each in CALLERS_OF_AWS if each in self.groups):
            if group is not None:
                group.add_ingress_rule(self.groups[party], ec2.Port.tcp(HTTPS), f"from {party}")
            # Any IPv4 address is permitted: without a NAT gateway, the VPC has routes only to the addresses of the
            # gateway endpoints. With one, no list of addresses of AWS' services is small enough for security groups. In
            # a VPC of the organisation, its routes decide.
            # https://docs.aws.amazon.com/vpc/latest/userguide/aws-ip-ranges.html
            self.groups[party].add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(HTTPS), f"AWS, by {way}")

    def _gateway_endpoints(self, environment: Environment) -> None:
        # A gateway endpoint (S3, DynamoDB) is a route to public addresses and has no security group, so its callers
        # need egress rules for addresses.
        for service in (ec2.GatewayVpcEndpointAwsService.S3, ec2.GatewayVpcEndpointAwsService.DYNAMODB):
            endpoint = self.vpc.add_gateway_endpoint(service.name.rpartition(".")[2] or "gateway", service=service)
            _restrict(endpoint)
            if service is ec2.GatewayVpcEndpointAwsService.S3:
                endpoint.add_to_policy(_image_layers(self, environment))

    def _interface_endpoints(self, group: ec2.ISecurityGroup) -> None:
        for name, service in _ENDPOINTS.items():
            _restrict(
                self.vpc.add_interface_endpoint(
                    f"{name}-endpoint", service=service, subnets=self.subnets, security_groups=[group], open=False
                )
            )


def _restrict(endpoint: ec2.VpcEndpoint) -> None:
    """Refuse requests with credentials of another account: nothing in this VPC has a reason to make one.

    Event pollers call STS and Lambda as the service itself.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
    """
    account = Stack.of(endpoint).account
    for conditions in (
        {"StringEquals": {"aws:PrincipalAccount": account}},
        {"Bool": {"aws:PrincipalIsAWSService": "true"}},
    ):
        endpoint.add_to_policy(
            iam.PolicyStatement(principals=[iam.AnyPrincipal()], actions=["*"], resources=["*"], conditions=conditions)
        )


def _image_layers(scope: Construct, environment: Environment) -> iam.PolicyStatement:
    """Permit reading the layers of images, for which ECR signs the requests itself.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html#ecr-minimum-s3-perms
    """
    layers = f"arn:{Stack.of(scope).partition}:s3:::prod-{environment.region}-starport-layer-bucket/*"
    return iam.PolicyStatement(principals=[iam.AnyPrincipal()], actions=["s3:GetObject"], resources=[layers])
