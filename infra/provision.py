"""Provisions the servers of a deployed environment: `python -m infra.provision [--check]`.

The command creates schemas, indices, roles, tables and users, and then compares the monolith's database with
schemas/source.yaml. It runs as a task in the VPC, whose environment variables name the servers (infra/cdk/stacks/
provisioning.py); a step whose variables are missing is left out. The deployment starts it, and so does
`masscomm upgrade --deployed ENVIRONMENT`. It is idempotent. With --check it changes nothing, and the exit status is 1
if a step would change something.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
from psycopg.conninfo import make_conninfo

from functions.catalogue import read_catalogue
from infra.cdk.profiles import (
    DIRECTORY_STATE,
    DIRECTORY_STATE_INDICES,
    ERASED_INDICES,
    ERASURE,
    METRICS_OWNER,
    METRICS_READER,
    METRICS_WRITER,
    OPERATOR,
    OPERATOR_INDICES,
    PROFILES,
    REGISTRY_OWNER,
    WITH_STATE,
)
from masscomm.aws.authentication import NONE, OpenSearchSigner, verified
from masscomm.aws.signature import Credentials
from masscomm.domain.source_tables import source_name
from masscomm.errors import MasscommError
from masscomm.kafka.registry_sign_in import SECRET_SETTING
from masscomm.kafka.topics import chain_topics, generations
from ops.provisioning import ProvisioningError
from ops.provisioning.database import (
    apply_tables,
    create_database,
    create_registry_user,
    create_users,
    job_runs,
    missing_database,
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


def directory_users(roles: str, *, with_state: bool = False) -> list[DirectoryUser]:
    """Return the users of OpenSearch according to infra.cdk.profiles: functions, operators, directory_state, and the
    job that erases a person.

    Args:
        roles: What the ARNs of the environment's roles begin with: arn:aws:iam::ACCOUNT:role/PREFIX-.
        with_state: Whether the environment has directory_state.
    """
    users = {ERASURE: (ERASED_INDICES, ERASED_INDICES), OPERATOR: (OPERATOR_INDICES, OPERATOR_INDICES)}
    if with_state:
        users[DIRECTORY_STATE] = (DIRECTORY_STATE_INDICES, ())
    for entry in read_catalogue(generation="any"):
        profile = PROFILES[entry.package]
        if profile.requests:
            users[entry.name] = (profile.indices, profile.written)
    prefix = roles.rpartition("/")[2]
    return [
        DirectoryUser(name=f"{prefix}{name}", role_arn=f"{roles}{name}", reads=reads, writes=writes)
        for name, (reads, writes) in users.items()
    ]


def administrator_url(client: Client, address: str, secret: str) -> str:
    """Return the URL of a database for its administrator, with the password from the secret that RDS made.

    Args:
        client: Creates a boto3 client of a service.
        address: The URL without a user.
        secret: The ARN of the secret.
    """
    known = _secret(client, secret)
    parts = urlsplit(address)
    user, password = quote(known["username"], safe=""), quote(known["password"], safe="")
    return verified(parts._replace(netloc=f"{user}:{password}@{parts.netloc}").geturl())


def _secret(client: Client, name: str) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(client("secretsmanager").get_secret_value(SecretId=name)["SecretString"])
    return known


def provisioning_steps(
    client: Client, variables: Mapping[str, str], sign: Callable[[str], OpenSearchSigner]
) -> list[Step]:
    """Return the steps that provision the servers which the variables name, in the order of their dependencies.

    Args:
        client: Creates a boto3 client of a service.
        variables: The environment variables of the task.
        sign: Creates the signer of requests to an OpenSearch domain in a region.
    """
    steps = []
    if "REGISTRY_DATABASE_URL" in variables:
        # The registry's tasks run as soon as their user exists.
        steps.append(_registry_user(client, variables))
    if registry := variables.get("SCHEMA_REGISTRY_URL"):
        sign_in = None
        if secret := variables.get(SECRET_SETTING):
            known = _secret(client, secret)
            sign_in = (known["username"], known["password"])
        steps.append(Step.of("schemas", unregistered, register_schemas, registry, chain_topics(), auth=sign_in))
    if url := variables.get("OPENSEARCH_URL"):
        auth = None
        if variables["OPENSEARCH_AUTHENTICATION"] != NONE:
            auth = sign(variables["AWS_REGION"])
            users = directory_users(variables["ROLES"], with_state=WITH_STATE in variables)
            steps.append(Step.of("roles", outdated_roles, create_roles, url, users, auth=auth))
        steps += [
            Step.of(f"indices of {generation}", outdated_indices, create_indices, url, generation, auth=auth)
            for generation in generations(variables["CDC_GENERATION"])
        ]
    if metrics := variables.get("METRICS_DATABASE_URL"):
        secret = variables.get("METRICS_DATABASE_SECRET")
        if secret is None:
            steps.append(Step.of("tables", unapplied_tables, apply_tables, verified(metrics)))
        else:
            steps.append(_tables_and_users(administrator_url(client, metrics, secret)))
    return steps


def _registry_user(client: Client, variables: Mapping[str, str]) -> Step:
    database = administrator_url(client, variables["REGISTRY_DATABASE_URL"], variables["REGISTRY_DATABASE_SECRET"])
    known = _secret(client, variables["REGISTRY_USER_SECRET"])
    user = {"user": known["username"], "password": known["password"], "owner": REGISTRY_OWNER}
    return Step.of("registry's user", outdated_registry_user, create_registry_user, database, **user)


def _tables_and_users(database_url: str) -> Step:
    """Return one step, because the users' privileges cover the tables of that moment. An instance of the organisation
    gets the database, too.
    """
    users = {"owner": METRICS_OWNER, "reader": METRICS_READER, "writer": METRICS_WRITER}

    def run() -> None:
        create_database(database_url)
        if unapplied_tables(database_url) and job_runs(database_url):
            raise ProvisioningError(
                "The metrics job runs, and the tables change: `python -m infra.metrics_job ENVIRONMENT stop` first."
            )
        apply_tables(database_url)
        create_users(database_url, **users)

    def pending() -> list[str]:
        missing = missing_database(database_url)
        return missing or unapplied_tables(database_url) + outdated_users(database_url, **users)

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
    secret = _secret(client, secret_name)
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
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if a step is pending")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each step")
    chosen = parser.parse_args()
    session: Any = boto3.Session()

    def sign(region: str) -> OpenSearchSigner:
        def now() -> Credentials:
            found = session.get_credentials()
            if found is None:
                raise ProvisioningError("No AWS credentials found: sign in first.")
            frozen = found.get_frozen_credentials()
            return Credentials(access_key=frozen.access_key, secret_key=frozen.secret_key, token=frozen.token)

        return OpenSearchSigner(region, now)

    variables = os.environ
    try:
        steps = provisioning_steps(session.client, variables, sign)
        pending = run_steps(steps, check=chosen.check, report=printing(print, as_json=chosen.json))
        # An environment on external servers has no connector.
        if monolith := variables.get("MONOLITH_SECRET"):
            agreement = check_monolith(
                session.client, monolith, generations(variables["CDC_GENERATION"]), variables["CAPTURE"]
            )
            print(json.dumps({"checked": agreement}) if chosen.json else agreement)  # noqa: T201
    except (ProvisioningError, MasscommError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 1 if chosen.check and pending else 0


if __name__ == "__main__":
    sys.exit(main())
