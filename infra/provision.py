"""`python -m infra.provision ENVIRONMENT`: what must be inside the servers of a deployed environment.

Addresses, ways of signing in and roles are read from the functions as they are deployed, so that it makes what they
will ask for. It runs as the role PREFIX-provisioner on a host that reaches the VPC, before records come; doing it again
changes nothing.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import boto3

from functions.catalogue import read_catalogue
from infra.cdk.profiles import ERASED_INDICES, ERASURE, METRICS_READER, METRICS_WRITER, PROFILES
from masscomm.aws.authentication import NONE, OpenSearchSigner, verified
from masscomm.aws.signature import Credentials
from masscomm.kafka.topics import chain_topics, generations
from provisioning import ProvisioningError
from provisioning.database import TABLES, apply_sql, create_users
from provisioning.directory import DirectoryUser, SignedRequests, create_indices, create_roles
from provisioning.registry import register_schemas

type Client = Callable[[str], Any]


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """A function as it is deployed: its variables, and its role's ARN."""

    variables: Mapping[str, str]
    role_arn: str


def deployed_functions(client: Client, prefix: str) -> dict[str, Deployed]:
    """Every function of functions.yaml, by its name there. Errors: botocore's, where one is not deployed."""
    found = {}
    for entry in read_catalogue(generation="any"):
        response = client("lambda").get_function_configuration(FunctionName=f"{prefix}-{entry.name}")
        found[entry.name] = Deployed(variables=response["Environment"]["Variables"], role_arn=response["Role"])
    return found


def directory_users(functions: Mapping[str, Deployed], prefix: str) -> list[DirectoryUser]:
    """Who may use which indices, as infra.cdk.profiles says: functions, and the job that erases a person."""
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
    """The database past its proxy, as its administrator: RDS keeps the password, and says where."""
    (response,) = client("rds").describe_db_instances(DBInstanceIdentifier=instance)["DBInstances"]
    secret = client("secretsmanager").get_secret_value(SecretId=response["MasterUserSecret"]["SecretArn"])
    known = json.loads(secret["SecretString"])
    at = response["Endpoint"]
    user, password = quote(known["username"], safe=""), quote(known["password"], safe="")
    return verified(f"postgresql://{user}:{password}@{at['Address']}:{at['Port']}/{response['DBName']}")


def provision(client: Client, prefix: str, sign: Callable[[str], OpenSearchSigner]) -> list[str]:
    """Everything; what was done, a line each. sign: makes what signs requests to a domain of a region."""
    functions = deployed_functions(client, prefix)
    directory, metrics = functions["cdc_consumer"].variables, functions["metrics_handler"].variables
    ids = register_schemas(directory["SCHEMA_REGISTRY_URL"], chain_topics())
    done = [f"{len(ids)} subjects at {directory['SCHEMA_REGISTRY_URL']}"]
    url = directory["OPENSEARCH_URL"]
    if directory["OPENSEARCH_AUTHENTICATION"] == NONE:
        auth = None
    else:
        auth = SignedRequests(sign(client("lambda").meta.region_name))
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
        create_users(administrator, reader=METRICS_READER, writer=METRICS_WRITER)
        done.append(f"users {METRICS_READER} and {METRICS_WRITER}")
    done.append(f"{len(TABLES)} files of tables")
    return done


def main() -> int:
    """Do it, and say what was done; 1 with the server's own words where one refuses."""
    parser = argparse.ArgumentParser(prog="python -m infra.provision", description=__doc__)
    parser.add_argument("environment", help="dev, staging, prod, local")
    session: Any = boto3.Session()

    def sign(region: str) -> OpenSearchSigner:
        def now() -> Credentials:
            found = session.get_credentials()
            if found is None:
                raise ProvisioningError("no credentials to sign with")
            frozen = found.get_frozen_credentials()
            return Credentials(access_key=frozen.access_key, secret_key=frozen.secret_key, token=frozen.token)

        return OpenSearchSigner(region, now)

    try:
        for line in provision(session.client, f"masscomm-{parser.parse_args().environment}", sign):
            print(line)  # noqa: T201 - what a command says
    except ProvisioningError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
