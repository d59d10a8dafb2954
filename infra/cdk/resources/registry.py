"""Creates the schema registry: Apicurio on Fargate, with its schemas in PostgreSQL, behind a load balancer with TLS."""

import json
from itertools import batched

from aws_cdk import Duration
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as balancing
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_route53 as route53
from aws_cdk import aws_route53_targets as targets
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.cdk.config import CONFLUENT_API, REGISTRY_WRITES, Environment
from infra.cdk.images import REGISTRY as IMAGE
from infra.cdk.profiles import REGISTRY_DATABASE, REGISTRY_OWNER
from infra.cdk.resources.authorities import ONE_AUTHORITY, rds_authority
from infra.cdk.resources.databases import Database
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group, removal
from infra.cdk.resources.network import HTTPS, REGISTRY, Place
from infra.cdk.resources.task import container_image, task_definition
from masscomm.kafka.topics import chain_topics

# The number of paths in a rule of a load balancer: a condition may have three values.
_PATHS = 3
# The maximum number of connections of a task to its database.
CONNECTIONS = 10
_READY = "/health/ready"
_KEYS, _KEY_STORE = "/tls", "/tls/registry.p12"
# A command with which each task generates a key pair before the registry starts. The key pair encrypts the traffic from
# the load balancer, which does not verify certificates; security groups limit the clients of a task.
_MAKE_KEYS = (
    *("-genkeypair", "-alias", "registry", "-dname", "CN=registry", "-keyalg", "EC", "-groupname", "secp256r1"),
    *("-validity", "3650", "-storetype", "PKCS12", "-keystore", _KEY_STORE, "-storepass:env", "KEY_STORE_PASSWORD"),
)


class SchemaRegistry(Construct):
    """The registry's service. It is reachable only inside the VPC, with TLS to its load balancer and from there to
    its tasks. The load balancer permits writes only on the port REGISTRY_WRITES.

    Attributes:
        cluster: The ECS cluster of the environment.
        service: The Fargate service.
        balancer: The load balancer.
        certificate: The certificate of the registry's host name.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        place: Place,
        balancer_place: Place,
        database: Database,
        user: secretsmanager.ISecret,
        access_log: s3.IBucket,
    ) -> None:
        super().__init__(scope, "service")
        self.cluster = tasks_cluster(self, environment=environment, vpc=place.vpc, name=environment.prefix)
        self.service = ecs.FargateService(
            self,
            "service",
            cluster=self.cluster,
            service_name="registry",
            task_definition=self._task(environment, key, database, user),
            desired_count=environment.registry.tasks,
            min_healthy_percent=50,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            health_check_grace_period=Duration.seconds(90),
            vpc_subnets=place.subnets,
            security_groups=[place.group],
        )
        domain, arn = environment.registry.domain, environment.registry.certificate_arn
        self.certificate: acm.ICertificate = (
            acm.Certificate.from_certificate_arn(self, "certificate", arn)
            if arn
            else acm.Certificate(
                self, "certificate", domain_name=domain, validation=acm.CertificateValidation.from_dns()
            )
        )
        self.balancer = self._balancer(environment, balancer_place, access_log)

    def _task(
        self, environment: Environment, key: kms.IKey, database: Database, user: secretsmanager.ISecret
    ) -> ecs.FargateTaskDefinition:
        """Return a task with two containers: the first generates the key pair and exits, then Apicurio starts."""
        log = log_group(self, "log", environment=environment, key=key)
        task = task_definition(
            self,
            family=f"{environment.prefix}-registry",
            cpu=environment.registry.cpu,
            memory_mb=environment.registry.memory_mb,
        )
        secret = secretsmanager.Secret.from_secret_complete_arn(self, "secret", user.secret_arn)
        password = ecs.Secret.from_secrets_manager(secret, "password")
        task.add_volume(name="keys")
        registry = container_image(self, environment, IMAGE)
        logging = ecs.LogDriver.aws_logs(stream_prefix="registry", log_group=log)
        keys = task.add_container(
            "keys",
            image=registry,
            logging=logging,
            essential=False,
            user="0",  # The container runs as root, because root owns the volume.
            entry_point=["keytool"],
            command=list(_MAKE_KEYS),
            # The password protects a key store that exists only as long as the task, so it can be any secret of both
            # containers.
            secrets={"KEY_STORE_PASSWORD": password},
        )
        apicurio = task.add_container(
            "apicurio",
            image=registry,
            logging=logging,
            port_mappings=[ecs.PortMapping(container_port=REGISTRY)],
            environment={
                "REGISTRY_DATASOURCE_URL": f"jdbc:{database.administrator_address(REGISTRY_DATABASE)}"
                f"?sslmode=verify-full&sslfactory={ONE_AUTHORITY}&sslfactoryarg=env:DATABASE_AUTHORITY",
                # By default 20 to 100, for a registry with many writers.
                "QUARKUS_DATASOURCE_JDBC_INITIAL_SIZE": "1",
                "QUARKUS_DATASOURCE_JDBC_MIN_SIZE": "1",
                "QUARKUS_DATASOURCE_JDBC_MAX_SIZE": str(CONNECTIONS),
                "DATABASE_AUTHORITY": rds_authority(environment.region),
                "REGISTRY_LOG_LEVEL": "WARN",
                "QUARKUS_HTTP_INSECURE_REQUESTS": "disabled",
                "QUARKUS_HTTP_SSL_PORT": str(REGISTRY),
                "QUARKUS_HTTP_SSL_CERTIFICATE_KEY_STORE_FILE": _KEY_STORE,
            },
            secrets={
                "REGISTRY_DATASOURCE_USERNAME": ecs.Secret.from_secrets_manager(secret, "username"),
                "REGISTRY_DATASOURCE_PASSWORD": password,
                "QUARKUS_HTTP_SSL_CERTIFICATE_KEY_STORE_PASSWORD": password,
            },
            readonly_root_filesystem=False,
        )
        for container, read_only in ((keys, False), (apicurio, True)):
            container.add_mount_points(ecs.MountPoint(container_path=_KEYS, source_volume="keys", read_only=read_only))
        apicurio.add_container_dependencies(
            ecs.ContainerDependency(container=keys, condition=ecs.ContainerDependencyCondition.SUCCESS)
        )
        # Our KMS key encrypts the password; the execution role decrypts it when the container starts.
        key_use = iam.PolicyStatement(actions=["kms:Decrypt"], resources=[key.key_arn])
        task.obtain_execution_role().add_to_principal_policy(key_use)
        explain(task, "the variables hold addresses and log levels; credentials are secrets", "ECS2")
        return task

    def _balancer(
        self, environment: Environment, place: Place, access_log: s3.IBucket
    ) -> balancing.ApplicationLoadBalancer:
        """Return an HTTPS load balancer with the registry's host name, which resolves only in this VPC. It replaces
        unhealthy tasks.

        It has a listener for look-ups, and one for everything, which only the security group `provisioning` reaches.
        """
        balancer = balancing.ApplicationLoadBalancer(
            self,
            "balancer",
            vpc=place.vpc,
            vpc_subnets=place.subnets,
            internet_facing=False,
            security_group=place.group,
            drop_invalid_header_fields=True,
            # A request that two servers may read differently, such as one with another in its body, is refused.
            desync_mitigation_mode=balancing.DesyncMitigationMode.STRICTEST,
            deletion_protection=environment.protected,
        )
        balancer.log_access_logs(access_log, "registry")
        listener = balancer.add_listener(
            "https",
            port=HTTPS,
            protocol=balancing.ApplicationProtocol.HTTPS,
            ssl_policy=balancing.SslPolicy.RECOMMENDED_TLS,
            certificates=[self.certificate],
            open=False,
            default_action=balancing.ListenerAction.fixed_response(
                403, content_type="text/plain", message_body="The schema registry accepts no writes here."
            ),
        )
        # A GET changes nothing, whatever its path.
        tasks = listener.add_targets(
            "tasks",
            priority=1,
            conditions=[
                balancing.ListenerCondition.http_request_methods(["GET"]),
                balancing.ListenerCondition.path_patterns([f"{CONFLUENT_API}/*"]),
            ],
            port=REGISTRY,
            protocol=balancing.ApplicationProtocol.HTTPS,
            targets=[self.service.load_balancer_target(container_name="apicurio", container_port=REGISTRY)],
            deregistration_delay=Duration.seconds(15),
            # A task that cannot connect to the database fails its health check, and is replaced.
            health_check=balancing.HealthCheck(
                path=_READY,
                protocol=balancing.Protocol.HTTPS,
                interval=Duration.seconds(15),
                timeout=Duration.seconds(5),
                unhealthy_threshold_count=4,
                healthy_threshold_count=2,
            ),
        )
        # A POST to a subject looks up a schema; one to any path below it may write. Therefore no path has a wildcard,
        # which an encoded slash could match.
        subjects = [f"{CONFLUENT_API}/subjects/{topic.subject}" for topic in chain_topics() if topic.schema]
        for number, paths in enumerate(batched(subjects, _PATHS, strict=False), start=1):
            listener.add_action(
                f"look-ups-{number}",
                priority=1 + number,
                conditions=[
                    balancing.ListenerCondition.http_request_methods(["POST"]),
                    balancing.ListenerCondition.path_patterns(list(paths)),
                ],
                action=balancing.ListenerAction.forward([tasks]),
            )
        balancer.add_listener(
            "writes",
            port=REGISTRY_WRITES,
            protocol=balancing.ApplicationProtocol.HTTPS,
            ssl_policy=balancing.SslPolicy.RECOMMENDED_TLS,
            certificates=[self.certificate],
            open=False,
            default_target_groups=[tasks],
        )
        zone = route53.PrivateHostedZone(self, "names", zone_name=environment.registry.domain, vpc=place.vpc)
        for number, vpc_id in enumerate(dict.fromkeys(each.vpc_id for each in environment.clients if each.vpc_id)):
            zone.add_vpc(
                ec2.Vpc.from_vpc_attributes(
                    self,
                    f"client-{number}",
                    vpc_id=vpc_id,
                    availability_zones=place.vpc.availability_zones,
                )
            )
        route53.ARecord(
            self,
            "address",
            zone=zone,
            target=route53.RecordTarget.from_alias(targets.LoadBalancerTarget(balancer)),
        )
        return balancer


def tasks_cluster(scope: Construct, *, environment: Environment, vpc: ec2.IVpc, name: str) -> ecs.Cluster:
    """Return a cluster for tasks on Fargate. With few alarms, it has no metrics of Container Insights, each of which is
    charged.
    """
    few = environment.few_alarms
    cluster = ecs.Cluster(
        scope,
        "cluster",
        vpc=vpc,
        cluster_name=name,
        container_insights_v2=ecs.ContainerInsights.DISABLED if few else ecs.ContainerInsights.ENABLED,
    )
    if few:
        explain(cluster, "AWS/ECS itself has the number of running tasks, without a charge", "ECS4")
    return cluster


def database_user(scope: Construct, *, environment: Environment, key: kms.IKey) -> secretsmanager.Secret:
    """Return the secret with the name and the password of the registry's database user. It belongs to an earlier stack,
    because infra.provision creates the user with it before the registry's tasks are deployed.
    """
    secret = secretsmanager.Secret(
        scope,
        "registry-user",
        secret_name=environment.registry_secret,
        description="the schema registry's database user",
        encryption_key=key,
        generate_secret_string=secretsmanager.SecretStringGenerator(
            secret_string_template=json.dumps({"username": REGISTRY_OWNER}),
            generate_string_key="password",
            password_length=48,
            exclude_punctuation=True,
        ),
        removal_policy=removal(environment),
    )
    explain(secret, "operators replace it by another user: tasks read the secret when they start", "SMG4")
    return secret
