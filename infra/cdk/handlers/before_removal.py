"""A Lambda function that prepares resources for their removal: it stops an application of EMR Serverless, and empties a
bucket.

It answers custom resources, which CloudFormation removes before the resources that they name. An update that leaves a
custom resource out removes it as well, such as that of an environment which becomes protected: a bucket is emptied only
while its stack is deleted. EMR Serverless deletes an application only while it is stopped, and stops it only while no
run is active; S3 deletes only empty buckets.

https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_DeleteApplication.html
https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteBucket.html
"""

import json
import time
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import ClientError

from infra.cdk.handlers.answers import answer
from infra.cdk.handlers.keep_job import ACTIVE

_POLL_S = 5.0
# The time that remains for the answer.
_ANSWER_MS = 20_000
# The states in which an application can be changed or deleted.
_STOPPED = ("CREATED", "STOPPED", "TERMINATED")
# The states of a stack that is deleted, or whose creation has failed.
_REMOVED = ("DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS")
# The fields of an answer of ListObjectVersions.
_KINDS = ("Versions", "DeleteMarkers")


def handler(event: dict[str, Any], context: Any) -> None:
    """Prepare the removal of a bucket or an application when its custom resource is removed. Answer CloudFormation."""
    reason = ""
    try:
        if event["RequestType"] == "Delete" and not _prepare(event["StackId"], event["ResourceProperties"], context):
            reason = "It takes longer than a function may run. Delete the stack again."
    except Exception as error:  # Without an answer, CloudFormation would wait for an hour.
        reason = f"{type(error).__name__}: {error}"
    answer(event, reason)


def _prepare(stack: str, properties: dict[str, str], context: Any) -> bool:
    """Return whether the resource can be removed now, or remains."""
    is_late = lambda: context.get_remaining_time_in_millis() < _ANSWER_MS  # noqa: E731
    if "Bucket" in properties:
        (found,) = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        if found["StackStatus"] not in _REMOVED:
            return True
        s3 = boto3.client("s3")
        refuse_writes(s3, properties["Bucket"], properties["Arn"])
        return empty(s3, properties["Bucket"], is_late)
    return stop(boto3.client("emr-serverless"), {"applicationId": properties["ApplicationId"]}, is_late)


def refuse_writes(s3: Any, bucket: str, arn: str) -> None:
    """Refuse new objects, such as access logs of the last requests."""
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": f"{arn}/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))


def empty(s3: Any, bucket: str, is_late: Callable[[], bool]) -> bool:
    """Delete every version of every object. Returns whether the bucket is empty."""
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        if is_late():
            return False
        found = [{"Key": each["Key"], "VersionId": each["VersionId"]} for kind in _KINDS for each in page.get(kind, [])]
        if found:
            answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": found, "Quiet": True})
            if errors := answer.get("Errors"):
                raise RuntimeError(f"{bucket}: {errors[0]['Key']}: {errors[0]['Code']}")
    return True


def stop(emr: Any, application: dict[str, str], is_late: Callable[[], bool]) -> bool:
    """Cancel the runs of an application and stop it. Returns whether it is stopped, or does not exist any more."""
    try:
        while not is_stopped(emr, application, cancels=True, report=print):
            if is_late():
                return False
            time.sleep(_POLL_S)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
    return True


def is_stopped(emr: Any, application: dict[str, str], *, cancels: bool, report: Callable[[str], object]) -> bool:
    """Take one step, and return whether the application is stopped.

    Args:
        emr: A boto3 client of emr-serverless.
        application: The argument `applicationId` of its calls.
        cancels: Whether active runs are cancelled; otherwise they are awaited.
        report: Receives a line of text for each active run.
    """
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
