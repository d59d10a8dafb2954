"""Runs a command of `masscomm` as a task in the VPC: `python -m infra.tasks ENVIRONMENT TASK COMMAND…`.

TASK is `provisioner` or `operator` (infra/cdk/stacks/provisioning.py). The command prints the task's log while it runs,
and ends with its exit status, or with 1 if the task did not start or was stopped. The audit log names the ARN of the
caller.
"""

import argparse
import json
import re
import shutil
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.cdk.environments import add_folder_option, environment_of
from infra.cdk.handlers.run_task import end_of, log_of, start
from masscomm.integers import integer_or
from masscomm.untrusted import visible

type Client = Callable[[str], Any]

_POLL_S = 2.0
# The characters and the length of `startedBy`.
# https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_RunTask.html
_NOT_IN_STARTED_BY = re.compile(r"[^A-Za-z0-9/_-]")
_STARTED_BY_CHARACTERS = 128


def run(
    client: Client,
    prefix: str,
    name: str,
    command: Sequence[str],
    *,
    report: Callable[[str], object],
    pause: Callable[[float], object],
    columns: int = 80,
) -> str:
    """Start a task, report its log, and return its exit status, or why it has none.

    Args:
        client: Creates a boto3 client of a service.
        prefix: The prefix of the environment's resource names.
        name: The name of the task.
        command: The arguments of `masscomm`.
        report: Receives each line of the log.
        pause: Sleeps for a number of seconds.
        columns: The width of the terminal.

    Raises:
        botocore.exceptions.ClientError: A call was refused.
        RuntimeError: ECS has no capacity for the task.
    """
    parameter = client("ssm").get_parameter(Name=f"/{prefix}/tasks/{name}")["Parameter"]["Value"]
    task = json.loads(parameter)
    caller = client("sts").get_caller_identity()["Arn"]
    ecs, logs = client("ecs"), client("logs")
    arn = start(
        ecs,
        task,
        token=str(uuid.uuid4()),
        started_by=_NOT_IN_STARTED_BY.sub("-", caller.rpartition("::")[2])[-_STARTED_BY_CHARACTERS:],
        command=list(command),
        environment=[{"name": "MASSCOMM_OPERATOR", "value": caller}, {"name": "COLUMNS", "value": str(columns)}],
    )
    token: str | None = None
    status: str | None = None
    while True:
        lines, following = log_of(logs, task, arn, start=True, token=token)
        for line in lines:
            report(line)
        # The last lines arrive before the task is shown as stopped; an unchanged token is the end of the log.
        if status is not None and following == token:
            return status
        token = following
        if not lines:
            status = end_of(ecs, task, arn)
            if status is None:
                pause(_POLL_S)


def main() -> int:
    """Run the command and return the exit status of the task."""
    parser = argparse.ArgumentParser(prog="python -m infra.tasks", description=__doc__)
    parser.add_argument("environment")
    add_folder_option(parser)
    parser.add_argument("task")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    session: Any = boto3.Session()
    try:
        environment = environment_of(chosen.environment, chosen.folder)
        status = run(
            lambda service: session.client(service, region_name=environment.region),
            environment.prefix,
            chosen.task,
            chosen.command,
            report=lambda line: print(visible(line)),  # noqa: T201
            pause=threading.Event().wait,
            columns=shutil.get_terminal_size().columns,
        )
    except (BotoCoreError, ClientError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    code = integer_or(status, None)
    if code is None:
        print(f"The task ended without a status: {status}", file=sys.stderr)  # noqa: T201
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
