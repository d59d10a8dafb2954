"""`python -m infra.erase ENVIRONMENT --user 7 --club 3 [--address …] [--even-if-known]`: erases one person in a
deployed environment.

The command starts the job that docs/personal-data.md describes, and waits for its end. The arguments of a run stay in
the list of runs, so the addresses are in a secret, which is deleted when the run has ended. The job's report is in the
log group /PREFIX/erasure. Exit status 0: done. 1: the run refused or could not reach a store; its log has the reason.
"""

import argparse
import json
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import boto3

from infra.cdk.environments import add_folder_option, environment_of
from infra.cdk.profiles import ADDRESSES

# The final states of a run (https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_JobRun.html).
_ENDED = ("SUCCESS", "FAILED", "CANCELLED")
_POLL_S = 10.0


def erase(
    client: Callable[[str], Any],
    prefix: str,
    arguments: Sequence[str],
    pause: Callable[[float], object],
    addresses: Sequence[str] = (),
) -> tuple[str, str]:
    """Start a run and wait for its end.

    Args:
        client: Creates a boto3 client of a service.
        prefix: The prefix of the environment's resource names.
        arguments: The arguments of the run.
        pause: Sleeps for a number of seconds.
        addresses: E-mail addresses of the person that the directory no longer has.

    Returns:
        The id and the final state of the run.
    """
    parameter = client("ssm").get_parameter(Name=f"/{prefix}/erase-job")["Parameter"]["Value"]
    request = json.loads(parameter)
    with _secret(client, prefix, addresses) as passed_on:
        return _run(client, request, [*arguments, *passed_on], pause)


@contextmanager
def _secret(client: Callable[[str], Any], prefix: str, addresses: Sequence[str]) -> Iterator[list[str]]:
    """Yield the argument that names a secret with the addresses; there is none without addresses."""
    if not addresses:
        yield []
        return
    secrets, name = client("secretsmanager"), f"{prefix}/{ADDRESSES}/{uuid.uuid4()}"
    secrets.create_secret(
        Name=name, SecretString="\n".join(addresses), Description="addresses of a person who is being erased"
    )
    try:
        yield [f"--addresses={name}"]
    finally:
        secrets.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)


def _run(
    client: Callable[[str], Any], request: dict[str, Any], arguments: Sequence[str], pause: Callable[[float], object]
) -> tuple[str, str]:
    request["jobDriver"]["sparkSubmit"]["entryPointArguments"] = list(arguments)
    emr = client("emr-serverless")
    started = emr.start_job_run(clientToken=str(uuid.uuid4()), **request)
    run = {"applicationId": request["applicationId"], "jobRunId": started["jobRunId"]}
    while (state := emr.get_job_run(**run)["jobRun"]["state"]) not in _ENDED:
        pause(_POLL_S)
    return run["jobRunId"], state


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.erase", description="Erase one person in AWS.")
    parser.add_argument("environment", help="a deployed environment, such as prod")
    parser.add_argument(
        "--address", action="append", default=[], help="a former e-mail address of the person; may be repeated"
    )
    add_folder_option(parser)
    chosen, passed_on = parser.parse_known_args(arguments)
    try:
        prefix = environment_of(chosen.environment, chosen.folder).prefix
    except ValueError as error:
        parser.error(str(error))
    session: Any = boto3.Session()
    run_id, state = erase(session.client, prefix, passed_on, threading.Event().wait, chosen.address)
    print(f"Run {run_id} ended: {state}. Its report is in the log group /{prefix}/erasure.")  # noqa: T201
    return 0 if state == "SUCCESS" else 1


if __name__ == "__main__":
    sys.exit(main())
