"""Provisions the servers of a deployed environment: `python -m infra.provision ENVIRONMENT [--check]`.

The command creates schemas, indices, roles, tables and users, and then compares the monolith's database with
schemas/source.yaml. It reads addresses, authentication and roles from the deployed functions, so that they match. Run
it as the role PREFIX-REGION-provisioner, on a host in the VPC with the security group `PREFIX provisioning`, before the
connector is created and the first records are produced. It is idempotent; `masscomm upgrade --deployed ENVIRONMENT` is
the same command. With --check it changes nothing, and the exit status is 1 if a step would change something.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import quote

import boto3
from psycopg.conninfo import make_conninfo

from functions.catalogue import read_catalogue
from infra.cdk.config import LOCAL, Environment
from infra.cdk.environments import EnvironmentsError, add_folder_option, environment_of
from infra.cdk.profiles import ERASED_INDICES, ERASURE, METRICS_OWNER, METRICS_READER, METRICS_WRITER, PROFILES
from masscomm.aws.authentication import NONE, OpenSearchSigner, verified
from masscomm.aws.signature import Credentials
from masscomm.domain.source_tables import source_name
from masscomm.kafka.topics import chain_topics, generations
from ops.provisioning import ProvisioningError
from ops.provisioning.database import (
    apply_tables,
    create_registry_user,
    create_users,
    outdated_registry_user,
    outdated_users,
    unapplied_tables,
)
from ops.provisioning.directory import DirectoryUser, create_indices, create_roles, outdated_indices, outdated_roles
from ops.provisioning.registry import register_schemas, unregistered
from ops.provisioning.source_check import require_source
from ops.provisioning.steps import Step, printing, run_steps

# The fields of the monolith's secret (docs/deploying.md), which the connector reads, too.
MONOLITH_FIELDS = ("host", "port", "dbname", "username", "password", "ca")

type Client = Callable[[str], Any]


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """The configuration of a deployed function."""

    # The environment variables of the function.
    variables: Mapping[str, str]
    role_arn: str


def deployed_functions(client: Client, prefix: str) -> dict[str, Deployed]:
    """Return the deployed configuration of every function in functions.yaml, by its name there.

    Raises:
        botocore.exceptions.ClientError: A function is not deployed.
    """
    found = {}
    for entry in read_catalogue(generation="any"):
        response = client("lambda").get_function_configuration(FunctionName=f"{prefix}-{entry.name}")
        found[entry.name] = Deployed(variables=response["Environment"]["Variables"], role_arn=response["Role"])
    return found


def directory_users(functions: Mapping[str, Deployed], prefix: str, erasing_role: str) -> list[DirectoryUser]:
    """Return the users of OpenSearch according to infra.cdk.profiles: functions, and the job that erases a person."""
    packages = {entry.name: entry.package for entry in read_catalogue(generation="any")}
    account = next(iter(functions.values())).role_arn.partition(":role/")[0]
    erasure = DirectoryUser(
        name=f"{prefix}-{ERASURE}",
        role_arn=f"{account}:role{erasing_role}",
        reads=ERASED_INDICES,
        writes=ERASED_INDICES,
    )
    return [
        erasure,
        *(
            DirectoryUser(
                name=f"{prefix}-{name}",
                role_arn=function.role_arn,
                reads=PROFILES[packages[name]].indices,
                writes=PROFILES[packages[name]].written,
            )
            for name, function in functions.items()
            if PROFILES[packages[name]].requests
        ),
    ]


def administrator_url(client: Client, instance: str) -> str:
    """Return the URL of a database instance for its administrator, with the password from the secret that RDS names.

    Raises:
        ProvisioningError: RDS has not created the instance yet.
    """
    rds = client("rds")
    try:
        (response,) = rds.describe_db_instances(DBInstanceIdentifier=instance)["DBInstances"]
    except rds.exceptions.DBInstanceNotFoundFault:
        response = {}
    if "Endpoint" not in response:
        raise ProvisioningError(f"The database {instance} does not exist yet. Run the command again when it does.")
    secret = client("secretsmanager").get_secret_value(SecretId=response["MasterUserSecret"]["SecretArn"])
    known = json.loads(secret["SecretString"])
    at = response["Endpoint"]
    user, password = quote(known["username"], safe=""), quote(known["password"], safe="")
    return verified(f"postgresql://{user}:{password}@{at['Address']}:{at['Port']}/{response['DBName']}")


def provisioning_steps(
    client: Client, prefix: str, sign: Callable[[str], OpenSearchSigner], environment: Environment | None
) -> list[Step]:
    """Return the steps that provision all servers.

    Args:
        client: Creates a boto3 client of a service.
        prefix: The prefix of the environment's resource names.
        sign: Creates the signer of requests to an OpenSearch domain in a region.
        environment: The configuration of the environment; None: it uses external servers.
    """
    functions = deployed_functions(client, prefix)
    directory, metrics = functions["cdc_consumer"].variables, functions["metrics_handler"].variables
    registry, url = directory["SCHEMA_REGISTRY_URL"], directory["OPENSEARCH_URL"]
    steps = []
    if environment is not None:
        # The registry refuses writes at the address of the functions. Its tasks run as soon as their user exists.
        registry = environment.registry.writes_url
        steps.append(_registry_user(client, environment))
    steps.append(Step.of("schemas", unregistered, register_schemas, registry, chain_topics()))
    auth = None
    if directory["OPENSEARCH_AUTHENTICATION"] != NONE:
        if environment is None:
            raise ProvisioningError("An environment on external servers has no sign-in to OpenSearch.")
        auth = sign(environment.region)
        role = f"{environment.platform.role_path}{environment.global_prefix}-{ERASURE}"
        users = directory_users(functions, prefix, role)
        steps.append(Step.of("roles", outdated_roles, create_roles, url, users, auth=auth))
    steps += [
        Step.of(f"indices of {generation}", outdated_indices, create_indices, url, generation, auth=auth)
        for generation in generations(directory["CDC_GENERATION"])
    ]
    if metrics["METRICS_DATABASE_AUTHENTICATION"] == NONE:
        database = verified(metrics["METRICS_DATABASE_URL"])
        tables = Step.of("tables", unapplied_tables, apply_tables, database)
    else:
        database = administrator_url(client, f"{prefix}-metrics")
        tables = _tables_and_users(database)
    return [*steps, tables]


def _registry_user(client: Client, environment: Environment) -> Step:
    database = administrator_url(client, f"{environment.prefix}-registry")
    secret = client("secretsmanager").get_secret_value(SecretId=environment.registry_secret)
    known = json.loads(secret["SecretString"])
    user = {"user": known["username"], "password": known["password"]}
    return Step.of("registry's user", outdated_registry_user, create_registry_user, database, **user)


def _tables_and_users(database_url: str) -> Step:
    """Return one step, because the users' privileges cover the tables of that moment."""
    users = {"owner": METRICS_OWNER, "reader": METRICS_READER, "writer": METRICS_WRITER}

    def run() -> None:
        apply_tables(database_url)
        create_users(database_url, **users)

    def pending() -> list[str]:
        return unapplied_tables(database_url) + outdated_users(database_url, **users)

    return Step(name="tables", pending=pending, run=run)


def check_monolith(client: Client, secret_name: str, captured: Iterable[str], installation: str) -> str:
    """Compare the monolith's database with schemas/source.yaml, as the connector's user and with its TLS settings.

    Args:
        client: Creates a boto3 client of a service.
        secret_name: The name of the monolith's secret.
        captured: The snapshot generations that connectors capture.
        installation: The name of the installation in the slots' names.

    Returns:
        A line of text.

    Raises:
        ProvisioningError: The secret is incomplete, the database cannot be reached, or change data capture would not
            work; the message has each problem with the statements that repair it.
    """
    secret = json.loads(client("secretsmanager").get_secret_value(SecretId=secret_name)["SecretString"])
    missing = [name for name in MONOLITH_FIELDS if not secret.get(name)]
    if missing:
        raise ProvisioningError(f"The secret {secret_name} has no {', '.join(missing)}.")
    with NamedTemporaryFile("w", suffix=".pem") as authority:
        authority.write(secret["ca"])
        authority.flush()
        url = make_conninfo(
            host=secret["host"],
            port=secret["port"],
            dbname=secret["dbname"],
            user=secret["username"],
            password=secret["password"],
            sslmode="verify-full",
            sslrootcert=authority.name,
            connect_timeout=10,
        )
        for generation in captured:
            require_source(url, generation, installation)
    return f"the monolith's database {secret['dbname']} at {secret['host']} agrees with {source_name()}"


def main() -> int:
    """Run the command and return its exit status: 1 if a server refused a step, or a connector would not work."""
    parser = argparse.ArgumentParser(prog="python -m infra.provision", description=__doc__)
    parser.add_argument("environment", help="a deployed environment, such as prod; or local")
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if a step is pending")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each step")
    add_folder_option(parser)
    session: Any = boto3.Session()

    def sign(region: str) -> OpenSearchSigner:
        def now() -> Credentials:
            found = session.get_credentials()
            if found is None:
                raise ProvisioningError("No AWS credentials found: sign in first.")
            frozen = found.get_frozen_credentials()
            return Credentials(access_key=frozen.access_key, secret_key=frozen.secret_key, token=frozen.token)

        return OpenSearchSigner(region, now)

    try:
        chosen = parser.parse_args()
        name = chosen.environment
        # An environment on external servers has no connector, and no registry of its own.
        configured = None if name == LOCAL else environment_of(name, chosen.folder)
        prefix = f"masscomm-{LOCAL}" if configured is None else configured.prefix
        steps = provisioning_steps(session.client, prefix, sign, configured)
        pending = run_steps(steps, check=chosen.check, report=printing(print, as_json=chosen.json))
        if configured is not None:
            secret, captured = configured.monolith.secret_name, generations(configured.generation)
            agreement = check_monolith(session.client, secret, captured, configured.global_prefix)
            print(json.dumps({"checked": agreement}) if chosen.json else agreement)  # noqa: T201
    except (ProvisioningError, EnvironmentsError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 1 if chosen.check and pending else 0


if __name__ == "__main__":
    sys.exit(main())
