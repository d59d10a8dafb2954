"""Keep one run of the streaming job going: the one that was deployed last.

Called each minute, and whenever a run changes its state. The name of a run carries what it was made from: a run of
another name is cancelled, and when none is left the wanted one is started, which goes on from the offsets that are
counted. EMR Serverless tries a failed run again by itself until that gets too often; then it is over, and is started
again here.

JOB_PARAMETER: the parameter of Systems Manager that holds the request of StartJobRun, as JSON, without its client token
(it is longer than a function's variables may be). APPLICATION: the application's name, for the metric JobRunning: 1
where the wanted run goes on, else 0.
"""

import json
import logging
import os
import time
import uuid
from typing import Any

import boto3

# A run in one of these goes on, or will.
ACTIVE = ("SUBMITTED", "PENDING", "QUEUED", "SCHEDULED", "RUNNING", "CANCELLING")
_log = logging.getLogger(__name__)


def handler(_event: object, _context: object) -> dict[str, str]:
    """What was done: `started`, `cancelled`, `waiting` for a cancelled one, or `running`."""
    job = boto3.client("ssm").get_parameter(Name=os.environ["JOB_PARAMETER"])["Parameter"]["Value"]
    action = keep(boto3.client("emr-serverless"), json.loads(job))
    print(_metric(running=action == "running"))  # noqa: T201 - how a function tells CloudWatch a number
    return {"action": action}


def _metric(*, running: bool) -> str:
    """A line in CloudWatch's embedded metric format."""
    metrics = {"Namespace": "masscomm", "Dimensions": [["application"]], "Metrics": [{"Name": "JobRunning"}]}
    return json.dumps(
        {
            "_aws": {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [metrics]},
            "application": os.environ["APPLICATION"],
            "JobRunning": int(running),
        }
    )


def keep(emr: Any, job: dict[str, Any]) -> str:
    """One step towards exactly one run of the job. emr: boto3's emr-serverless."""
    pages = emr.get_paginator("list_job_runs").paginate(applicationId=job["applicationId"], states=list(ACTIVE))
    active = [run for page in pages for run in page["jobRuns"]]
    wanted = [run for run in active if run["name"] == job["name"] and run["state"] != "CANCELLING"]
    # The oldest goes on: a second one could only have been started by hand.
    keeping = min(wanted, key=lambda run: run["createdAt"], default=None)
    others = [run for run in active if run is not keeping and run["state"] != "CANCELLING"]
    for run in others:
        _log.warning("cancelling %s (%s)", run["id"], run["name"])
        emr.cancel_job_run(applicationId=job["applicationId"], jobRunId=run["id"])
    if others:
        return "cancelled"
    if keeping is not None:
        return "running"
    if active:
        return "waiting"
    started = emr.start_job_run(clientToken=str(uuid.uuid4()), **job)
    _log.warning("started %s (%s)", started["jobRunId"], job["name"])
    return "started"
