"""A Lambda function that runs a task of ECS when a stack is deployed, and waits for its end.

It answers a custom resource, whose property Task has the request of RunTask and the place of the log. A task that ends
with another status than 0 fails the deployment; the reason is the end of its log. A function runs for at most 15
minutes: for a longer task, it invokes itself again, until CloudFormation's limit of an hour for a custom resource.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html
"""

import json
import time
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError

from infra.cdk.handlers.answers import answer

_POLL_S = 5.0
# The time that remains for another invocation or the answer.
_ANSWER_MS = 20_000
# The lines of a log that an answer contains, of at most 4,096 bytes together with its other fields.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-responses.html
_LINES = 20
_REASON_CHARACTERS = 2_000


def handler(event: dict[str, Any], context: Any) -> None:
    """Run the task when its custom resource is created or changed. Answer CloudFormation at the task's end."""
    reason = ""
    try:
        if event["RequestType"] != "Delete":
            task = json.loads(event["ResourceProperties"]["Task"])
            ecs = boto3.client("ecs")
            arn = event.get("TaskArn") or start(ecs, task, token=event["RequestId"], started_by="deployment")
            while (status := end_of(ecs, task, arn)) is None:
                if context.get_remaining_time_in_millis() < _ANSWER_MS:
                    boto3.client("lambda").invoke(
                        FunctionName=context.invoked_function_arn,
                        InvocationType="Event",
                        Payload=json.dumps(event | {"TaskArn": arn}).encode(),
                    )
                    return
                time.sleep(_POLL_S)
            if status != "0":
                lines, _ = log_of(boto3.client("logs"), task, arn, start=False)
                reason = f"The task ended with {status}. {' | '.join(lines[-_LINES:])[-_REASON_CHARACTERS:]}"
    except Exception as error:  # Without an answer, CloudFormation would wait for an hour.
        reason = f"{type(error).__name__}: {error}"
    answer(event, reason)


def start(ecs: Any, task: Mapping[str, Any], *, token: str, started_by: str, **override: Any) -> str:
    """Start a task and return its ARN. A repeated call with the same token starts no second one.

    Args:
        ecs: A boto3 client of ECS.
        task: The property Task.
        token: The client token.
        started_by: At most 128 letters, digits, hyphens, underscores and slashes.
        override: Overrides of the container: command, environment.

    Raises:
        RuntimeError: ECS has no capacity for the task.
    """
    overrides = {"containerOverrides": [{"name": "masscomm", **override}]} if override else {}
    answer = ecs.run_task(**task["request"], count=1, clientToken=token, startedBy=started_by, overrides=overrides)
    if not answer["tasks"]:
        raise RuntimeError(f"The task was not started: {answer['failures']}")
    return str(answer["tasks"][0]["taskArn"])


def end_of(ecs: Any, task: Mapping[str, Any], arn: str) -> str | None:
    """Return the exit status of a task, or why it has none; None while it runs."""
    found = ecs.describe_tasks(cluster=task["request"]["cluster"], tasks=[arn])["tasks"]
    # A task that has just been started may not be visible yet.
    if not found or found[0]["lastStatus"] != "STOPPED":
        return None
    (container,) = found[0]["containers"]
    status = container.get("exitCode")
    if status is None:
        return container.get("reason") or found[0].get("stoppedReason") or "no exit status"
    return str(status)


def log_of(
    logs: Any, task: Mapping[str, Any], arn: str, *, start: bool, token: str | None = None
) -> tuple[list[str], str | None]:
    """Return the next lines of a task's log, and the token with which to go on; no lines if there is no log.

    https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html
    """
    log = task["log"]
    stream = f"{log['prefix']}/{arn.rpartition('/')[2]}"
    more = {"nextToken": token} if token else {}
    try:
        page = logs.get_log_events(logGroupName=log["group"], logStreamName=stream, startFromHead=start, **more)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        return [], token
    return [event["message"] for event in page["events"]], page["nextForwardToken"]
