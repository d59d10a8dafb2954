"""Apicurio on Fargate: the registry that also runs locally, with its schemas in PostgreSQL."""

from aws_cdk import Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_servicediscovery as discovery
from constructs import Construct

from infra.cdk.resources.databases import Database
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group, removal
from infra.cdk.resources.network import REGISTRY
from infra.cdk.settings import Environment

# The image's tag, as devstack/jars/registry/pom.xml pins the jar of the local registry.
VERSION = "2.6.13.Final"
_CONFLUENT_API = "/apis/ccompat/v7"


class SchemaRegistry(Construct):
    """A service of the VPC without any way in from outside.

    url: its Confluent API; repository: where its image is copied to before the first deployment.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        vpc: ec2.IVpc,
        subnets: ec2.SubnetSelection,
        group: ec2.ISecurityGroup,
        database: Database,
    ) -> None:
        super().__init__(scope, "service")
        namespace = discovery.PrivateDnsNamespace(self, "names", name=f"{environment.prefix}.internal", vpc=vpc)
        self.url = f"http://registry.{environment.prefix}.internal:{REGISTRY}{_CONFLUENT_API}"
        self.repository = ecr.Repository.from_repository_name(self, "image", repository_name(environment))
        log = log_group(self, "log", environment=environment, key=key)
        task = ecs.FargateTaskDefinition(
            self,
            "task",
            family=f"{environment.prefix}-registry",
            cpu=512,
            memory_limit_mib=1024,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64, operating_system_family=ecs.OperatingSystemFamily.LINUX
            ),
        )
        secret = secretsmanager.Secret.from_secret_complete_arn(self, "secret", database.secret_arn)
        task.add_container(
            "apicurio",
            image=ecs.ContainerImage.from_ecr_repository(self.repository, VERSION),
            logging=ecs.LogDriver.aws_logs(stream_prefix="registry", log_group=log),
            port_mappings=[ecs.PortMapping(container_port=REGISTRY)],
            environment={
                "REGISTRY_DATASOURCE_URL": f"jdbc:postgresql://{database.instance.db_instance_endpoint_address}"
                f":{database.instance.db_instance_endpoint_port}/{database.name}?sslmode=require",
                "REGISTRY_LOG_LEVEL": "WARN",
                "QUARKUS_HTTP_PORT": str(REGISTRY),
            },
            secrets={
                "REGISTRY_DATASOURCE_USERNAME": ecs.Secret.from_secrets_manager(secret, "username"),
                "REGISTRY_DATASOURCE_PASSWORD": ecs.Secret.from_secrets_manager(secret, "password"),
            },
            # RDS changes the password each week. A task that no longer gets a connection is not ready, and is replaced
            # by one that reads the new password; the other serves meanwhile.
            health_check=ecs.HealthCheck(
                command=["CMD-SHELL", f"curl -fsS http://localhost:{REGISTRY}/health/ready || exit 1"],
                interval=Duration.seconds(15),
                retries=4,
                start_period=Duration.seconds(90),
            ),
            readonly_root_filesystem=False,
        )
        # The password is encrypted with our key; what starts the container decrypts it.
        key_use = iam.PolicyStatement(actions=["kms:Decrypt"], resources=[key.key_arn])
        task.obtain_execution_role().add_to_principal_policy(key_use)
        explain(task, "its variables are addresses and log levels: the credentials are secrets", "ECS2")
        explain(
            task.obtain_execution_role(),
            "ecr:GetAuthorizationToken is for the whole account and takes no resource",
            "IAM5[Resource::*]",
        )
        cluster = ecs.Cluster(
            self,
            "cluster",
            vpc=vpc,
            cluster_name=environment.prefix,
            container_insights_v2=ecs.ContainerInsights.ENABLED,
        )
        self.service = ecs.FargateService(
            self,
            "service",
            cluster=cluster,
            service_name="registry",
            task_definition=task,
            desired_count=2,
            min_healthy_percent=50,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(enable=True, rollback=True),
            vpc_subnets=subnets,
            security_groups=[group],
            cloud_map_options=ecs.CloudMapOptions(
                name="registry", cloud_map_namespace=namespace, dns_ttl=Duration.seconds(10)
            ),
        )


def repository_name(environment: Environment) -> str:
    """The repository that holds the registry's image."""
    return f"{environment.prefix}/registry"


def image_repository(scope: Construct, *, environment: Environment, key: kms.IKey) -> ecr.Repository:
    """It stands in a stack of its own right: the image must be in it before anything can start."""
    return ecr.Repository(
        scope,
        "registry-image",
        repository_name=repository_name(environment),
        encryption=ecr.RepositoryEncryption.KMS,
        encryption_key=key,
        image_scan_on_push=True,
        image_tag_mutability=ecr.TagMutability.IMMUTABLE,
        removal_policy=removal(environment),
        empty_on_delete=not environment.protected,
    )
