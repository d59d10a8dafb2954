"""Creates RDS for PostgreSQL: an instance, and a proxy with which clients authenticate by IAM tokens."""

from collections.abc import Iterable

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_rds as rds
from constructs import Construct

from infra.cdk.config import Environment, ExistingPostgres
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group, removal
from infra.cdk.resources.network import Place
from infra.cdk.resources.task import read_secrets

_COLONS = ArnFormat.COLON_RESOURCE_NAME


class TokenDatabase:
    """A database whose clients authenticate with IAM tokens.

    Args:
        address: The host, with the port if it is not 5432.
        resource: The resource id of the instance or proxy, as permissions for rds-db:connect name it.
        name: The name of the database.
    """

    authentication = "aws_rds_iam"

    def __init__(self, *, address: str, resource: str, name: str) -> None:
        self._address, self._resource, self._name = address, resource, name

    def url(self, user: str) -> str:
        """Return the libpq URL for a user. The client adds a token as the password."""
        return f"postgresql://{user}@{self._address}/{self._name}?sslmode=verify-full"

    def statements(self, scope: Construct, user: str) -> list[iam.PolicyStatement]:
        """Return the policy statements with which a role of the scope's account may connect as this database user."""
        return [
            iam.PolicyStatement(
                actions=["rds-db:connect"],
                resources=[
                    Stack.of(scope).format_arn(
                        service="rds-db",
                        resource="dbuser",
                        resource_name=f"{self._resource}/{user}",
                        arn_format=_COLONS,
                    )
                ],
            )
        ]


def _secret_of(instance: rds.DatabaseInstance) -> str:
    """Return the ARN of the secret that RDS made for an instance."""
    resource = instance.node.default_child
    if not isinstance(resource, rds.CfnDBInstance):
        raise TypeError(f"the database {instance.node.id} has no resource")
    return resource.attr_master_user_secret_secret_arn


# The memory of a class of size large in GiB, and the multiples of the other sizes.
# https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/Concepts.DBInstanceClass.Summary.html
_LARGE_GIB = {"t4g": 8, "m7g": 8, "r7g": 16}
_SIZES = {"micro": 0.125, "small": 0.25, "medium": 0.5, "large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8}


def max_connections(instance_type: str) -> int:
    """Return the default maximum number of connections of PostgreSQL, LEAST(DBInstanceClassMemory/9531392, 5000).

    The real one is some percent lower, because the memory excludes that of the operating system.
    https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/CHAP_Limits.html#RDS_Limits.MaxConnections

    Raises:
        ValueError: The memory of the class is unknown.
    """
    family, _, size = instance_type.partition(".")
    if family not in _LARGE_GIB or size not in _SIZES:
        raise ValueError(f"{instance_type}: add the memory of the class to infra/cdk/resources/databases.py")
    return min(int(_LARGE_GIB[family] * _SIZES[size] * 1024**3 / 9_531_392), 5_000)


class Database(Construct):
    """One PostgreSQL instance, existing or own: then it is encrypted, with TLS only, and Secrets Manager stores and
    rotates the administrator's password.

    Attributes:
        instance: The RDS instance.
        administrator_secret: The ARN of the secret with the name and the password of the administrator.
        connections: The maximum number of its connections.
        writer: The endpoint of the instance, without a proxy.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        key: kms.IKey,
        place: Place,
        instance_type: str,
        name: str,
        existing: ExistingPostgres | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.name, self.connections = name, max_connections(instance_type)
        self.instance: rds.IDatabaseInstance
        self._secret_key: str | None
        if existing is None:
            own = self._create(environment, key, place, instance_type)
            self.instance, self.administrator_secret, self._secret_key = own, _secret_of(own), key.key_arn
        else:
            self.instance = self._found(existing, place)
            self.administrator_secret, self._secret_key = existing.secret_arn, existing.secret_key_arn
        self.writer = TokenDatabase(
            address=self.instance.instance_endpoint.socket_address, resource=self._resource_id(), name=name
        )

    def _found(self, existing: ExistingPostgres, place: Place) -> rds.IDatabaseInstance:
        return rds.DatabaseInstance.from_database_instance_attributes(
            self,
            "instance",
            instance_identifier=existing.instance,
            instance_endpoint_address=existing.host,
            port=existing.port,
            instance_resource_id=existing.resource_id,
            security_groups=[self._own(place.group)],
            # The family of the proxy's engine is that of every version.
            engine=rds.DatabaseInstanceEngine.POSTGRES,
        )

    def _create(
        self, environment: Environment, key: kms.IKey, place: Place, instance_type: str
    ) -> rds.DatabaseInstance:
        config, id = environment.database, self.node.id
        major = config.version.partition(".")[0]
        engine = rds.DatabaseInstanceEngine.postgres(version=rds.PostgresEngineVersion.of(config.version, major))
        identifier = f"{environment.prefix}-{id}"
        # The log group is created here: RDS would create it without our key and without an expiry.
        log = log_group(
            self, "log", environment=environment, key=key, name=f"/aws/rds/instance/{identifier}/postgresql"
        )
        instance = rds.DatabaseInstance(
            self,
            "instance",
            instance_identifier=identifier,
            engine=engine,
            instance_type=ec2.InstanceType(instance_type),
            vpc=place.vpc,
            vpc_subnets=place.subnets,
            security_groups=[self._own(place.group)],
            database_name=self.name,
            credentials=rds.Credentials.from_username("administrator", encryption_key=key),
            # RDS generates the password, stores it in Secrets Manager, and rotates it every week.
            manage_master_user_password=True,
            parameters={"rds.force_ssl": "1"},
            iam_authentication=True,
            # Clients verify the certificate with this authority, which schemas/certificates contains.
            ca_certificate=rds.CaCertificate.RDS_CA_RSA2048_G1,
            multi_az=config.multi_az,
            storage_encrypted=True,
            storage_encryption_key=key,
            storage_type=rds.StorageType.GP3,
            allocated_storage=config.volume_gb,
            max_allocated_storage=config.max_volume_gb,
            backup_retention=Duration.days(config.backup_days),
            copy_tags_to_snapshot=True,
            delete_automated_backups=not environment.keeps_data,
            deletion_protection=environment.protected,
            removal_policy=removal(environment),
            cloudwatch_logs_exports=["postgresql"],
            enable_performance_insights=True,
            performance_insight_encryption_key=key,
            auto_minor_version_upgrade=True,
        )
        instance.node.add_dependency(log)
        # The subnets of an instance that is kept cannot be deleted.
        subnet_group = instance.node.find_child("SubnetGroup")
        if not isinstance(subnet_group, rds.SubnetGroup):
            raise TypeError(f"the database {self.name} has no subnet group")
        subnet_group.apply_removal_policy(removal(environment))
        explain(instance, "the port is no protection: security groups restrict access", "RDS11")
        if not config.multi_az:
            explain(instance, f"{environment.name} may be unavailable during an outage of its zone", "RDS3")
        if not environment.protected:
            explain(instance, f"{environment.name} can be deleted and created again", "RDS10")
        return instance

    def secret_statements(self, scope: Construct) -> list[iam.PolicyStatement]:
        """Return the permissions to read the administrator's secret."""
        return read_secrets(scope, self.administrator_secret, key=self._secret_key)

    def administrator_address(self, name: str) -> str:
        """Return the URL of a database in the instance, without a user."""
        return f"postgresql://{self.instance.instance_endpoint.socket_address}/{name}"

    def _resource_id(self) -> str:
        found = self.instance.instance_resource_id
        if found is None:
            raise TypeError(f"the database {self.name} has no resource id")
        return found

    def _own(self, group: ec2.ISecurityGroup) -> ec2.ISecurityGroup:
        """Return the security group, imported by its id. CDK adds no rules to it: network.py has them all, and EC2
        refuses a rule that exists (InvalidPermission.Duplicate).

        https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
        """
        return ec2.SecurityGroup.from_security_group_id(
            self, f"{group.node.id}-group", group.security_group_id, mutable=False
        )

    def add_proxy(
        self,
        *,
        environment: Environment,
        key: kms.IKey,
        place: Place,
        users: Iterable[str],
    ) -> TokenDatabase:
        """Add a proxy with which clients authenticate by IAM tokens. No password is stored for these users.

        Args:
            environment: The environment, which determines the name of the proxy.
            key: The KMS key that encrypts the proxy's log.
            place: The place of the proxy.
            users: The database users as which the proxy may connect, with tokens of its own role.
        """
        name = f"{environment.prefix}-{self.name}"
        log = log_group(self, "proxy-log", environment=environment, key=key, name=f"/aws/rds/proxy/{name}")
        role = iam.Role(self, "proxy-role", assumed_by=iam.ServicePrincipal("rds.amazonaws.com"))
        for statement in (each for user in users for each in self.writer.statements(self, user)):
            role.add_to_policy(statement)
        proxy = rds.DatabaseProxy(
            self,
            "proxy",
            role=role,
            proxy_target=rds.ProxyTarget.from_instance(self.instance),
            db_proxy_name=name,
            default_auth_scheme=rds.DefaultAuthScheme.IAM_AUTH,
            require_tls=True,
            vpc=place.vpc,
            vpc_subnets=place.subnets,
            security_groups=[self._own(place.group)],
            idle_client_timeout=Duration.minutes(30),
        )
        # The proxy connects when it is created, so the policy of its role must exist by then.
        proxy.node.add_dependency(log, role)
        # The resource id, prx-…, is the last part of the ARN.
        resource = Stack.of(self).split_arn(proxy.db_proxy_arn, _COLONS).resource_name
        return TokenDatabase(address=proxy.endpoint, resource=str(resource), name=self.name)
