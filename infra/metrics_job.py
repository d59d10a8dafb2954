"""`python -m infra.metrics_job ENVIRONMENT stop|start`: stops the Spark jobs of a deployed environment, and starts the
streaming job again.

`stop` keeps keep_job from starting runs, cancels those of the streaming job, waits for the others, such as an erasure,
and stops the applications: EMR Serverless changes an application only while it is stopped, so a deployment with another
release, size or network fails as long as it runs. `start` permits keep_job to start the streaming job, within a minute.
Both may be repeated. Nothing is lost meanwhile: the job continues at its offsets.

Source: https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_UpdateApplication.html
"""

import argparse
import json
import threading
from collections.abc import Callable
from typing import Any

import boto3

from infra.cdk.config import ENVIRONMENTS
from infra.cdk.handlers.keep_job import ACTIVE

type Client = Callable[[str], Any]

_POLL_S = 5.0
# The states in which an application can be changed.
_STOPPED = ("CREATED", "STOPPED")


def stop(client: Client, prefix: str, pause: Callable[[float], object], report: Callable[[str], object]) -> None:
    """Stop the applications of an environment.

    Args:
        client: Creates a boto3 client of a service.
        prefix: The prefix of the environment's resource names.
        pause: Sleeps for a number of seconds.
        report: Receives a line of text for each step.

    Raises:
        botocore.exceptions.ClientError: A run has started between the last look and the stop. Repeat the command.
    """
    # A function without concurrency is not invoked. A deployment does not change this setting, which no template has.
    client("lambda").put_function_concurrency(FunctionName=_keeper(prefix), ReservedConcurrentExecutions=0)
    emr = client("emr-serverless")
    for name, cancels in (("streaming-job", True), ("erase-job", False)):
        parameter = client("ssm").get_parameter(Name=f"/{prefix}/{name}")["Parameter"]["Value"]
        application = {"applicationId": json.loads(parameter)["applicationId"]}
        while not _is_stopped(emr, application, cancels=cancels, report=report):
            pause(_POLL_S)
        report(f"The application of {name} is stopped.")


def _is_stopped(emr: Any, application: dict[str, str], *, cancels: bool, report: Callable[[str], object]) -> bool:
    """Take one step, and return whether the application is stopped."""
    pages = emr.get_paginator("list_job_runs").paginate(**application, states=list(ACTIVE))
    if runs := [run for page in pages for run in page["jobRuns"]]:
        for run in runs:
            if cancels and run["state"] != "CANCELLING":
                emr.cancel_job_run(**application, jobRunId=run["id"])
            report(f"Waiting for the end of run {run['id']} ({run['name']}).")
        return False
    state = emr.get_application(**application)["application"]["state"]
    if state == "STARTED":
        emr.stop_application(**application)
    return state in _STOPPED


def start(client: Client, prefix: str) -> None:
    """Permit keep_job to start the streaming job."""
    client("lambda").delete_function_concurrency(FunctionName=_keeper(prefix))


def _keeper(prefix: str) -> str:
    return f"{prefix}-keep-job"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.metrics_job", description="Stop or start the Spark jobs.")
    parser.add_argument("environment", choices=ENVIRONMENTS)
    parser.add_argument("action", choices=("stop", "start"))
    chosen = parser.parse_args()
    prefix, session = f"masscomm-{chosen.environment}", boto3.Session()
    client: Any = session.client
    if chosen.action == "stop":
        stop(client, prefix, threading.Event().wait, print)
    else:
        start(client, prefix)


if __name__ == "__main__":
    main()
