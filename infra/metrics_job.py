"""`python -m infra.metrics_job ENVIRONMENT stop|start`: stops the Spark jobs of a deployed environment, and starts the
streaming jobs again.

`stop` keeps keep_job from starting runs, cancels those of the streaming jobs, waits for the others, such as an erasure,
and stops the applications: EMR Serverless changes an application only while it is stopped, so a deployment with another
release, size or network fails as long as it runs. `start` permits keep_job to start the streaming jobs, in a minute.
Both may be repeated. Nothing is lost meanwhile: the jobs continue at their offsets.

Source: https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_UpdateApplication.html
"""

import argparse
import json
import threading
from collections.abc import Callable
from typing import Any

import boto3

from infra.cdk.config import Environment
from infra.cdk.environments import add_folder_option, environment_of
from infra.cdk.handlers.before_removal import is_stopped

type Client = Callable[[str], Any]

_POLL_S = 5.0


def stop(
    client: Client, environment: Environment, pause: Callable[[float], object], report: Callable[[str], object]
) -> None:
    """Stop the applications of an environment.

    Args:
        client: Creates a boto3 client of a service.
        environment: The environment.
        pause: Sleeps for a number of seconds.
        report: Receives a line of text for each step.

    Raises:
        botocore.exceptions.ClientError: A run has started between the last look and the stop. Repeat the command.
    """
    keepers = _keepers(environment)
    for keeper in keepers.values():
        # A function without concurrency is not invoked. No template has this setting, so no deployment changes it.
        client("lambda").put_function_concurrency(FunctionName=keeper, ReservedConcurrentExecutions=0)
    emr = client("emr-serverless")
    for name in (*keepers, "erase-job"):
        cancels = name in keepers
        parameter = client("ssm").get_parameter(Name=f"/{environment.prefix}/{name}")["Parameter"]["Value"]
        application = {"applicationId": json.loads(parameter)["applicationId"]}
        while not is_stopped(emr, application, cancels=cancels, report=report):
            pause(_POLL_S)
        report(f"The application of {name} is stopped.")


def start(client: Client, environment: Environment) -> None:
    """Permit keep_job to start the streaming jobs."""
    for keeper in _keepers(environment).values():
        client("lambda").delete_function_concurrency(FunctionName=keeper)


def _keepers(environment: Environment) -> dict[str, str]:
    """Return the names of the functions that keep the streaming jobs running, by the jobs' parameters."""
    found = {}
    if environment.has("metrics"):
        found["streaming-job"] = f"{environment.prefix}-keep-job"
    if environment.event_sources is not None:
        found["events-job"] = f"{environment.prefix}-keep-events-job"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.metrics_job", description="Stop or start the Spark jobs.")
    parser.add_argument("environment")
    parser.add_argument("action", choices=("stop", "start"))
    add_folder_option(parser)
    chosen = parser.parse_args()
    try:
        environment, session = environment_of(chosen.environment, chosen.folder), boto3.Session()
    except ValueError as error:
        parser.error(str(error))
    client: Any = session.client
    if chosen.action == "stop":
        stop(client, environment, threading.Event().wait, print)
    else:
        start(client, environment)


if __name__ == "__main__":
    main()
