"""Checks a deployed environment: `python -m infra.smoke ENVIRONMENT --club CLUB OPTIONS`.

It reads the address of the API from the outputs of the stack `api`, makes an API key for the run, runs `masscomm smoke`
with both and the given options, and revokes the key. `masscomm smoke ENVIRONMENT` is the same command. With a key in
MASSCOMM_API_KEY it makes none. The managed policy PREFIX-REGION-smoke (infra/cdk/stacks/api.py) permits its calls.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import httpx
from botocore.exceptions import BotoCoreError, ClientError

from cli.folders import ROOT
from cli.installation import Installation
from infra.cdk.config import Environment
from infra.cdk.environments import add_folder_option, environment_of
from masscomm.errors import MasscommError
from masscomm.http.scopes import Scope, scopes_text
from masscomm.operations import keys as management
from masscomm.stores.api_keys.dynamodb import TABLE, ApiKeys
from masscomm.stores.api_keys.port import ApiKey

type Client = Callable[[str], Any]

# The scopes of the routes that `masscomm smoke` calls, and of texts for a club (tenant) without templates.
SCOPES = (Scope.SEND, Scope.SEND_CONTENT, Scope.READ, Scope.USERS_READ, Scope.OPERATE)
# The end of a key whose run was killed, so that nothing revoked it.
KEY_S = 3_600
# How long API Gateway may refuse a new key. A change of a key has its effect after about 10 s:
# https://repost.aws/questions/QUIiY_hoP0T4SYnFd3NMGDRw
ACCEPTED_S = 60
_POLL_S = 2.0
# A run that counts in intervals starts its job in this time.
_JOB_START_S = 300
API_KEY = "MASSCOMM_API_KEY"


class SmokeError(Exception):
    """The environment cannot be checked; the message says why."""


@dataclass(frozen=True, kw_only=True)
class DeployedApi:
    """The REST API of an environment."""

    url: str
    # The id of the usage plan of its keys.
    usage_plan: str


def deployed_api(client: Client, environment: Environment) -> DeployedApi:
    """Return the API from the outputs of its stack. Raises SmokeError if it is not deployed."""
    name = f"{environment.prefix}-api"
    try:
        (stack,) = client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        raise SmokeError(f"The stack {name} cannot be read: {error}") from error
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}
    if missing := {"url", "plan"} - outputs.keys():
        raise SmokeError(f"The stack {name} has no output {', '.join(sorted(missing))}. Deploy this version first.")
    return DeployedApi(url=outputs["url"].rstrip("/"), usage_plan=outputs["plan"])


@contextmanager
def temporary_key(client: Client, environment: Environment, api: DeployedApi, club: int) -> Iterator[str]:
    """Yield an API key of one club (tenant) with the scopes of the checks, which ends with the block."""
    tables = Installation.of_tables(environment.prefix, region_name=environment.region)
    keys, gateway, now_s = ApiKeys(tables.dynamodb(), tables.table(TABLE)), client("apigateway"), int(time.time())
    wanted = ApiKey(
        digest="",
        name="smoke",
        clubs=str(club),
        scopes=scopes_text(SCOPES),
        created_at=now_s,
        expires_at=now_s + KEY_S,
    )
    with ExitStack() as made:
        new = management.create(keys, wanted, tables.audit)
        made.callback(lambda: management.revoke(keys, new.key, now_s=int(time.time()), audit=tables.audit))
        # API Gateway counts the key's requests in the usage plan by the digest, which the authorizer returns.
        name = f"{environment.prefix}-smoke-{new.key.key_id}"
        entry = gateway.create_api_key(name=name, value=new.key.digest, enabled=True)["id"]
        made.callback(gateway.delete_api_key, apiKey=entry)
        gateway.create_usage_plan_key(usagePlanId=api.usage_plan, keyId=entry, keyType="API_KEY")
        yield new.text


def await_accepted(url: str, key: str, pause: Callable[[float], object]) -> None:
    """Wait until API Gateway accepts a new key. Raises SmokeError if it does not in time."""
    deadline = time.monotonic() + ACCEPTED_S
    while (
        httpx.get(f"{url}/v1/categories", headers={"x-api-key": key}, timeout=30).status_code == httpx.codes.FORBIDDEN
    ):
        if time.monotonic() > deadline:
            raise SmokeError(f"{url} has refused a new API key for {ACCEPTED_S} s: see the usage plan in API Gateway.")
        pause(_POLL_S)


def run(
    client: Client,
    environment: Environment,
    *,
    club: int,
    url: str | None,
    options: Sequence[str],
    check: Callable[[Sequence[str], Mapping[str, str]], int],
    pause: Callable[[float], object],
) -> int:
    """Check the environment and return the exit status of `masscomm smoke`.

    Args:
        client: Creates a boto3 client of a service.
        environment: The environment.
        club: The club (tenant) of the sends.
        url: The address of the API; None: that of the stack's outputs.
        options: Further options of `masscomm smoke`.
        check: Runs `masscomm smoke` with arguments and further environment variables.
        pause: Sleeps for a number of seconds.

    Raises:
        SmokeError: The environment cannot be checked.
        botocore.exceptions.ClientError: A call was refused.
    """
    api = deployed_api(client, environment)
    address, every = url or api.url, environment.spark.every_minutes
    # A count comes at the end of the next run of the job at the latest. A later --timeout has precedence.
    waits = [] if every is None else [f"--timeout={every * 60 + _JOB_START_S}"]
    arguments = [f"--url={address}", f"--club={club}", *waits, *options]
    if os.environ.get(API_KEY):
        return check(arguments, {})
    with temporary_key(client, environment, api, club) as key:
        await_accepted(address, key, pause)
        return check(arguments, {API_KEY: key})


def _smoke(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    command = [sys.executable, "-m", "cli.main", "smoke", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode


def main() -> int:
    """Run the command and return its exit status: 1 if a check fails or the environment cannot be checked."""
    parser = argparse.ArgumentParser(prog="python -m infra.smoke", description=__doc__, allow_abbrev=False)
    parser.add_argument("environment")
    parser.add_argument("--club", type=int, required=True, help="the club (tenant) of the sends")
    parser.add_argument("--url", help="the address of the API, if it is not that of the stack's outputs")
    add_folder_option(parser)
    chosen, options = parser.parse_known_args()
    session: Any = boto3.Session()
    try:
        environment = environment_of(chosen.environment, chosen.folder)
        return run(
            lambda service: session.client(service, region_name=environment.region),
            environment,
            club=chosen.club,
            url=chosen.url,
            options=options,
            check=_smoke,
            pause=threading.Event().wait,
        )
    except (SmokeError, MasscommError, ValueError, BotoCoreError, ClientError, httpx.HTTPError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1


if __name__ == "__main__":
    sys.exit(main())
