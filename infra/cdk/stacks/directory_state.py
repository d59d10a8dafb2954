"""The stack of directory_state, which answers look-ups in the directory from memory."""

from aws_cdk import Duration, Stack
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as balancing
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from directory_state.feed import fed_topics
from directory_state.snapshots import KEY
from infra.cdk.config import DIRECTORY_STATE, DirectoryStateConfig, Environment
from infra.cdk.images import APPLICATION, own_image
from infra.cdk.profiles import CONNECT_OFFSETS_TOPIC
from infra.cdk.profiles import DIRECTORY_STATE as ROLE
from infra.cdk.profiles import DIRECTORY_STATE_REQUESTS as REQUESTS
from infra.cdk.resources.buckets import access_log_bucket, snapshot_bucket
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group
from infra.cdk.resources.registry import SchemaRegistry
from infra.cdk.resources.registry_access import RegistryAccess
from infra.cdk.resources.task import container_image, task_definition, task_role
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.network import NetworkStack
from masscomm.kafka.topics import CDC_PROGRESS_GROUP, generations

_CONTAINER = "directory-state"
# A new task reads all topics before it is healthy. ECS ends a deployment when its task is.
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/early-success-criteria.html
_CATCH_UP = Duration.hours(1)


class DirectoryStateStack(Stack):
    """The stack of directory_state.

    Each task is a service of its own, with a port of the registry's load balancer: callers ask a certain task, and
    another one if it does not answer. A deployment replaces one task after the other, each once the former has caught
    up. It is deployed after the functions and change data capture, because tasks catch up with their records only. A
    bucket has the newest snapshot of the store, with which a new task begins.

    Args:
        token: The secret with the token that callers present.

    Attributes:
        services: The Fargate services.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        config: DirectoryStateConfig,
        base: NetworkStack,
        data: DataStack,
        registry: SchemaRegistry,
        token: secretsmanager.ISecret,
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-directory-state", env={"region": environment.region})
        self._environment, self._base, self._config = environment, base, config
        access_log = access_log_bucket(self, environment=environment, key=base.key)
        self._snapshots = snapshot_bucket(self, environment=environment, key=base.key, access_log=access_log)
        definition = self._definition(data, token)
        self.services: list[ecs.FargateService] = []
        for number, port in enumerate(config.ports):
            service = self._service(number, definition, registry)
            self._listener(port, service, registry)
            if self.services:
                service.node.add_dependency(self.services[-1])
            self.services.append(service)

    def _definition(self, data: DataStack, token: secretsmanager.ISecret) -> ecs.FargateTaskDefinition:
        environment, config, key = self._environment, self._config, self._base.key
        access = RegistryAccess(url=environment.registry_url)
        role = task_role(self, "role", environment=environment, name=ROLE, description="reads the directory's topics")
        for statement in (
            *data.kafka.statements(
                reads=[*fed_topics(generations(environment.generation)), CONNECT_OFFSETS_TOPIC],
                asks=[CDC_PROGRESS_GROUP],
            ),
            *data.directory.statements(REQUESTS),
            *self._snapshot_statements(),
        ):
            role.add_to_policy(statement)
        definition = task_definition(
            self,
            family=f"{environment.prefix}-directory-state",
            cpu=config.cpu,
            memory_mb=config.memory_mb,
            role=role,
            volume_gb=config.volume_gb,
        )
        # A secret with its key would put the execution role into the key's policy, in an earlier stack.
        known = secretsmanager.Secret.from_secret_complete_arn(self, "token", token.secret_arn)
        definition.add_container(
            _CONTAINER,
            image=container_image(self, environment, own_image()),
            entry_point=["python", "-m", "directory_state"],
            working_directory=APPLICATION,
            user="65534",  # nobody; only /tmp is writable.
            port_mappings=[ecs.PortMapping(container_port=DIRECTORY_STATE)],
            environment={
                "AWS_REGION": environment.region,
                "PYTHONPATH": APPLICATION,
                "PYTHONUNBUFFERED": "1",
                "LOG_LEVEL": "INFO",
                "KAFKA_BOOTSTRAP_SERVERS": data.kafka.bootstrap_servers,
                "KAFKA_AUTHENTICATION": data.kafka.authentication,
                **access.variables,
                "OPENSEARCH_URL": data.directory.url,
                "OPENSEARCH_AUTHENTICATION": data.directory.authentication,
                "CDC_GENERATION": environment.generation,
                "CONNECT_OFFSETS_TOPIC": CONNECT_OFFSETS_TOPIC,
                "DIRECTORY_STATE_FOLDER": "/tmp/directory-state",  # noqa: S108 - the task's own file system
                "DIRECTORY_STATE_ADDRESS": f"0.0.0.0:{DIRECTORY_STATE}",
                "DIRECTORY_STATE_CERTIFICATE": "self-signed",
                "DIRECTORY_STATE_FEEDERS": str(config.feeders),
                "DIRECTORY_STATE_SNAPSHOTS": self._snapshots.bucket_name,
            },
            secrets={"DIRECTORY_STATE_TOKEN": ecs.Secret.from_secrets_manager(known)},
            logging=ecs.LogDriver.aws_logs(
                stream_prefix="task", log_group=log_group(self, "log", environment=environment, key=key)
            ),
        )
        definition.obtain_execution_role().add_to_principal_policy(
            iam.PolicyStatement(actions=["kms:Decrypt"], resources=[key.key_arn])
        )
        explain(definition, "the variables hold addresses and names; the token is a secret", "ECS2")
        return definition

    def _snapshot_statements(self) -> list[iam.PolicyStatement]:
        return [
            # With ListBucket, a missing object is 404, not 403.
            # https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[self._snapshots.bucket_arn]),
            iam.PolicyStatement(
                actions=["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"],
                resources=[self._snapshots.arn_for_objects(KEY)],
            ),
            # https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
            iam.PolicyStatement(
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=[self._base.key.key_arn],
                conditions={"StringEquals": {"kms:ViaService": f"s3.{self.region}.amazonaws.com"}},
            ),
        ]

    def _service(
        self, number: int, definition: ecs.FargateTaskDefinition, registry: SchemaRegistry
    ) -> ecs.FargateService:
        place = self._base.network.place("directory-state")
        return ecs.FargateService(
            self,
            f"service-{number}",
            cluster=registry.cluster,
            service_name=f"directory-state-{number}",
            task_definition=definition,
            desired_count=1,
            # A port has one task at a time: what a caller has seen there once, it sees again.
            min_healthy_percent=0,
            max_healthy_percent=100,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            health_check_grace_period=_CATCH_UP,
            vpc_subnets=place.subnets,
            security_groups=[place.group],
        )

    def _listener(self, port: int, service: ecs.FargateService, registry: SchemaRegistry) -> None:
        listener = balancing.ApplicationListener(
            self,
            f"port-{port}",
            load_balancer=registry.balancer,
            port=port,
            protocol=balancing.ApplicationProtocol.HTTPS,
            ssl_policy=balancing.SslPolicy.RECOMMENDED_TLS,
            certificates=[registry.certificate],
            open=False,
        )
        listener.add_targets(
            "task",
            port=DIRECTORY_STATE,
            protocol=balancing.ApplicationProtocol.HTTPS,
            targets=[service.load_balancer_target(container_name=_CONTAINER, container_port=DIRECTORY_STATE)],
            deregistration_delay=Duration.seconds(15),
            # A task is healthy once it has caught up, and remains so while Kafka is down: a new one would know less.
            health_check=balancing.HealthCheck(
                path="/v1/health",
                protocol=balancing.Protocol.HTTPS,
                interval=Duration.seconds(10),
                timeout=Duration.seconds(5),
                unhealthy_threshold_count=6,
                healthy_threshold_count=2,
            ),
        )
