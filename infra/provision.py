"""Provisions the servers of a deployed environment: `python -m infra.provision ENVIRONMENT`.

The command creates schemas, indices, roles, tables and users, and then compares the monolith's database with
schemas/source.yaml. It reads addresses, authentication and roles from the deployed functions, so that they match. Run
it as the role PREFIX-provisioner, on a host that can reach the VPC and the monolith's database, before the connector is
created and the first records are produced. It is idempotent.
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
from infra.cdk.config import ENVIRONMENTS
from infra.cdk.profiles import ERASED_INDICES, ERASURE, METRICS_OWNER, METRICS_READER, METRICS_WRITER, PROFILES
from masscomm.aws.authentication import NONE, OpenSearchSigner, verified
from masscomm.aws.signature import Credentials
from masscomm.kafka.topics import chain_topics, generations
from provisioning import ProvisioningError
from provisioning.database import TABLES, apply_sql, create_users
from provisioning.directory import DirectoryUser, create_indices, create_roles
from provisioning.registry import register_schemas
from provisioning.source_check import require_source

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


def directory_users(functions: Mapping[str, Deployed], prefix: str) -> list[DirectoryUser]:
    """Return the users of OpenSearch according to infra.cdk.profiles: functions, and the job that erases a person."""
    packages = {entry.name: entry.package for entry in read_catalogue(generation="any")}
    account = next(iter(functions.values())).role_arn.partition(":role/")[0]
    erasure = DirectoryUser(
        name=f"{prefix}-{ERASURE}",
        role_arn=f"{account}:role/{prefix}-{ERASURE}",
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
    """Return the URL of a database instance for its administrator, with the password from the secret that RDS names."""
    (response,) = client("rds").describe_db_instances(DBInstanceIdentifier=instance)["DBInstances"]
    secret = client("secretsmanager").get_secret_value(SecretId=response["MasterUserSecret"]["SecretArn"])
    known = json.loads(secret["SecretString"])
    at = response["Endpoint"]
    user, password = quote(known["username"], safe=""), quote(known["password"], safe="")
    return verified(f"postgresql://{user}:{password}@{at['Address']}:{at['Port']}/{response['DBName']}")


def provision(client: Client, prefix: str, sign: Callable[[str], OpenSearchSigner]) -> list[str]:
    """Provision all servers.

    Args:
        client: Creates a boto3 client of a service.
        prefix: The prefix of the environment's resource names.
        sign: Creates the signer of requests to an OpenSearch domain in a region.

    Returns:
        A line of text for each step.

    Raises:
        ProvisioningError: A server refused a step.
    """
    functions = deployed_functions(client, prefix)
    directory, metrics = functions["cdc_consumer"].variables, functions["metrics_handler"].variables
    ids = register_schemas(directory["SCHEMA_REGISTRY_URL"], chain_topics())
    done = [f"{len(ids)} subjects at {directory['SCHEMA_REGISTRY_URL']}"]
    url = directory["OPENSEARCH_URL"]
    if directory["OPENSEARCH_AUTHENTICATION"] == NONE:
        auth = None
    else:
        auth = sign(client("lambda").meta.region_name)
        users = directory_users(functions, prefix)
        create_roles(url, users, auth=auth)
        done.append(f"{len(users)} roles at {url}")
    done.extend(
        f"{len(create_indices(url, generation, auth=auth))} indices of {generation} at {url}"
        for generation in generations(directory["CDC_GENERATION"])
    )
    if metrics["METRICS_DATABASE_AUTHENTICATION"] == NONE:
        apply_sql(verified(metrics["METRICS_DATABASE_URL"]), TABLES)
    else:
        administrator = administrator_url(client, f"{prefix}-metrics")
        apply_sql(administrator, TABLES)
        create_users(administrator, owner=METRICS_OWNER, reader=METRICS_READER, writer=METRICS_WRITER)
        done.append(f"users {METRICS_READER} and {METRICS_WRITER}")
    done.append(f"{len(TABLES)} files of tables")
    return done


def check_monolith(client: Client, secret_name: str, captured: Iterable[str]) -> str:
    """Compare the monolith's database with schemas/source.yaml, as the connector's user and with its TLS settings.

    Args:
        client: Creates a boto3 client of a service.
        secret_name: The name of the monolith's secret.
        captured: The snapshot generations that connectors capture.

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
            require_source(url, generation)
    return f"the monolith's database {secret['dbname']} at {secret['host']} agrees with schemas/source.yaml"


def main() -> int:
    """Run the command and return its exit status: 1 if a server refused a step, or a connector would not work."""
    parser = argparse.ArgumentParser(prog="python -m infra.provision", description=__doc__)
    parser.add_argument("environment", help="dev, staging, prod, local")
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
        name = parser.parse_args().environment
        for line in provision(session.client, f"masscomm-{name}", sign):
            print(line)  # noqa: T201 - the command's output
        # An environment on external servers has no connector.
        if name in ENVIRONMENTS:
            configured = ENVIRONMENTS[name]
            print(  # noqa: T201
                check_monolith(session.client, configured.monolith.secret_name, generations(configured.generation))
            )
    except ProvisioningError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
