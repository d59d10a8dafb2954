"""A Lambda function that keeps exactly one run of the streaming job active: a run of the deployed version.

It is invoked every minute by a schedule, and by EventBridge whenever a run changes its state. The name of a run ends
with a digest of its whole request: code, jars, settings and sizes. Runs of another name are cancelled; once none is
active, the deployed version is started and resumes from the committed offsets. EMR Serverless retries a failed run
until its retry limit; this function then starts a new run. Runs of mode BATCH end when they have counted everything:
they have a schedule of their own, without an invocation when a run ends.

Environment variables: JOB_PARAMETER names the Systems Manager parameter with the StartJobRun request as JSON, without
its client token; the request is too long for an environment variable. APPLICATION is the name of the EMR application,
which is the dimension of two metrics: JobRunning is 1 while a run of the deployed version executes, else 0, so that an
alarm triggers for a run that waits for capacity; JobStarts counts the started runs. A job that ends again and again,
such as for records that were deleted before it counted them, runs most of the time: an alarm watches its starts.
"""

import hashlib
import json
import logging
import os
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3

# The states of runs that have not ended.
ACTIVE = ("SUBMITTED", "PENDING", "QUEUED", "SCHEDULED", "RUNNING", "CANCELLING")
# The time that a run at its time limit takes to end.
_ENDING_MINUTES = 60
_log = logging.getLogger(__name__)


def handler(_event: object, _context: object) -> dict[str, str]:
    """Take one step and return its name: `started`, `cancelled`, `waiting` (a run has not begun, or a cancelled one has
    not ended) or `running`.
    """
    job = boto3.client("ssm").get_parameter(Name=os.environ["JOB_PARAMETER"])["Parameter"]["Value"]
    action = keep(boto3.client("emr-serverless"), named(json.loads(job)))
    print(_metric(action))  # noqa: T201 - CloudWatch reads the metric from the log
    return {"action": action}


def named(request: dict[str, Any]) -> dict[str, Any]:
    """Return a StartJobRun request whose name ends with a digest of all its parameters."""
    digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:12]
    return request | {"name": f"{request['name']}-{digest}"}


def _metric(action: str) -> str:
    """Return a line in CloudWatch's embedded metric format."""
    names = [{"Name": "JobRunning"}, {"Name": "JobStarts"}]
    metrics = {"Namespace": "masscomm", "Dimensions": [["application"]], "Metrics": names}
    return json.dumps(
        {
            "_aws": {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [metrics]},
            "application": os.environ["APPLICATION"],
            "JobRunning": int(action == "running"),
            "JobStarts": int(action == "started"),
        }
    )


def _recent(job: dict[str, Any]) -> dict[str, Any]:
    """Return the filter of the runs to list: a run of mode BATCH may be active for its time limit only, and there are
    thousands of them in a month.
    """
    if job.get("mode") != "BATCH":
        return {}
    limit = timedelta(minutes=job["executionTimeoutMinutes"] + _ENDING_MINUTES)
    return {"createdAtAfter": datetime.now(UTC) - limit}


def keep(emr: Any, job: dict[str, Any]) -> str:
    """Take one step towards exactly one run of the job.

    Args:
        emr: A boto3 client of emr-serverless.
        job: The StartJobRun request, as `named` returns it.

    Returns:
        The name of the step: `started`, `cancelled`, `waiting` or `running`.
    """
    pages = emr.get_paginator("list_job_runs").paginate(applicationId=job["applicationId"], **_recent(job))
    runs = [run for page in pages for run in page["jobRuns"]]
    active = [run for run in runs if run["state"] in ACTIVE]
    wanted = [run for run in active if run["name"] == job["name"] and run["state"] != "CANCELLING"]
    # The oldest run is kept; a second run exists only if an operator started it.
    keeping = min(wanted, key=lambda run: run["createdAt"], default=None)
    others = [run for run in active if run is not keeping and run["state"] != "CANCELLING"]
    for run in others:
        _log.warning("cancelling %s (%s)", run["id"], run["name"])
        emr.cancel_job_run(applicationId=job["applicationId"], jobRunId=run["id"])
    if others:
        return "cancelled"
    if keeping is not None and keeping["state"] == "RUNNING":
        return "running"
    if active:
        return "waiting"
    # Two invocations at the same time know the same runs and so use the same token, for which EMR starts one run.
    known = sorted(run["id"] for run in runs if run["name"] == job["name"])
    token = str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join([job["name"], *known])))
    started = emr.start_job_run(clientToken=token, **job)
    _log.warning("started %s (%s)", started["jobRunId"], job["name"])
    return "started"
