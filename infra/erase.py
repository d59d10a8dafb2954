"""`python -m infra.erase ENVIRONMENT --user 7 --club 3 [--address …] [--even-if-known]`: erases one person in a
deployed environment.

The command starts the job that docs/personal-data.md describes, and waits for its end. The job's report is in the log
group /PREFIX/erasure. Exit status 0: done. 1: the run refused or could not reach a store; its log has the reason.
"""

import argparse
import json
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import boto3

# The final states of a run (https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_JobRun.html).
_ENDED = ("SUCCESS", "FAILED", "CANCELLED")
_POLL_S = 10.0


def erase(
    client: Callable[[str], Any], prefix: str, arguments: Sequence[str], pause: Callable[[float], object]
) -> tuple[str, str]:
    """Start a run and wait for its end.

    Args:
        client: Creates a boto3 client of a service.
        prefix: The prefix of the environment's resource names.
        arguments: The arguments of the run.
        pause: Sleeps for a number of seconds.

    Returns:
        The id and the final state of the run.
    """
    parameter = client("ssm").get_parameter(Name=f"/{prefix}/erase-job")["Parameter"]["Value"]
    request = json.loads(parameter)
    request["jobDriver"]["sparkSubmit"]["entryPointArguments"] = list(arguments)
    emr = client("emr-serverless")
    started = emr.start_job_run(clientToken=str(uuid.uuid4()), **request)
    run = {"applicationId": request["applicationId"], "jobRunId": started["jobRunId"]}
    while (state := emr.get_job_run(**run)["jobRun"]["state"]) not in _ENDED:
        pause(_POLL_S)
    return run["jobRunId"], state


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.erase", description="Erase one person in AWS.")
    parser.add_argument("environment", help="dev, staging, prod")
    chosen, passed_on = parser.parse_known_args(arguments)
    prefix = f"masscomm-{chosen.environment}"
    session: Any = boto3.Session()
    run_id, state = erase(session.client, prefix, passed_on, threading.Event().wait)
    print(f"Run {run_id} ended: {state}. Its report is in the log group /{prefix}/erasure.")  # noqa: T201
    return 0 if state == "SUCCESS" else 1


if __name__ == "__main__":
    sys.exit(main())
