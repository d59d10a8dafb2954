"""Removes a deployed environment: `python -m infra.destroy ENVIRONMENT [--confirm NAME]`.

The command stops the Spark jobs, deletes the environment's API keys, empties buckets, and deletes the stacks, each
before those whose exports it imports. It may be repeated. `masscomm destroy ENVIRONMENT` is the same command.

Of a protected environment, for which its name must be typed, it deletes only the stacks above the data: `network`,
`data` and `registry` remain with everything that they hold, and the next deployment continues on them.
"""

import argparse
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import boto3
from botocore.exceptions import ClientError, WaiterError

from infra.cdk.config import LOCAL, Environment
from infra.cdk.environments import add_folder_option, environment_of
from infra.cdk.handlers.before_removal import empty
from infra.metrics_job import Client, stop
from masscomm.cdc.debezium import debezium_config
from masscomm.kafka.topics import generations

# The stacks in the order of their removal: none imports from one before it.
STACKS = (
    *("observability", "directory-state", "console", "api", "functions", "door", "events", "metrics", "cdc"),
    *("provisioning", "registry", "data", "network"),
)
# The stacks that remain of a protected environment.
KEPT = ("registry", "data", "network")
_ATTEMPTS = 3
_POLL_S = 10


class DestroyError(Exception):
    """A stack could not be deleted, or the environment may not be; the message says why."""


def destroy(
    client: Client, environment: Environment, pause: Callable[[float], object], report: Callable[[str], object]
) -> None:
    """Remove the stacks of an environment.

    Args:
        client: Creates a boto3 client of a service.
        environment: The environment.
        pause: Sleeps for a number of seconds.
        report: Receives a line of text for each step.

    Raises:
        DestroyError: A stack could not be deleted. Repeat the command after the repair.
        botocore.exceptions.ClientError: A call was refused.
    """
    formation = client("cloudformation")
    removed = [name for name in STACKS if not (environment.protected and name in KEPT)]
    existing = [name for name in removed if _stack_id(formation, f"{environment.prefix}-{name}")]
    if "metrics" in existing:
        stop(client, environment, pause, report)
    if "api" in existing:
        _delete_keys(client("apigateway"), environment, report)
    remaining: list[str] = []
    for name in existing:
        remaining += _delete(client, f"{environment.prefix}-{name}", environment, report)
    for line in _remains(environment, remaining):
        report(line)


def _stack_id(formation: Any, name: str) -> str | None:
    try:
        return str(formation.describe_stacks(StackName=name)["Stacks"][0]["StackId"])
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise


def _delete(client: Client, name: str, environment: Environment, report: Callable[[str], object]) -> list[str]:
    """Delete a stack, and return the resources that it retains."""
    formation = client("cloudformation")
    id = _stack_id(formation, name)
    for attempt in range(_ATTEMPTS):
        if not environment.keeps_data:
            _empty(client, id, report)
        formation.delete_stack(StackName=id)
        try:
            # Deletions of interfaces in subnets, of EMR applications and of brokers take up to an hour.
            formation.get_waiter("stack_delete_complete").wait(
                StackName=id, WaiterConfig={"Delay": _POLL_S, "MaxAttempts": 3 * 3600 // _POLL_S}
            )
        except WaiterError as error:
            failures = [f"{each[0]}: {each[1]}" for each in _events(formation, id, "DELETE_FAILED")]
            report(f"{name} was not deleted: {'; '.join(failures) or error}")
            if attempt + 1 == _ATTEMPTS:
                raise DestroyError(f"{name} was not deleted. Repair the cause, and run the command again.") from error
        else:
            break
    report(f"{name} is deleted.")
    return [f"{each[0]} ({each[2]})" for each in _events(formation, id, "DELETE_SKIPPED")]


def _events(formation: Any, id: str | None, status: str) -> Iterator[tuple[str, str, str]]:
    """Yield (id, reason, type) of the resources with that status in the latest events of a stack."""
    for page in formation.get_paginator("describe_stack_events").paginate(StackName=id):
        for event in page["StackEvents"]:
            if event["ResourceStatus"] == status and event["PhysicalResourceId"] != id:
                yield event["PhysicalResourceId"], event.get("ResourceStatusReason", ""), event["ResourceType"]
            if event["ResourceStatus"] == "DELETE_IN_PROGRESS" and event["PhysicalResourceId"] == id:
                return


def _empty(client: Client, stack: str | None, report: Callable[[str], object]) -> None:
    """Empty the buckets of a stack."""
    for page in client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack):
        for each in page["StackResourceSummaries"]:
            name = each.get("PhysicalResourceId", "")
            if each["ResourceStatus"] == "DELETE_COMPLETE" or not name:
                continue
            if each["ResourceType"] == "AWS::S3::Bucket":
                empty(client("s3"), name, lambda: False)
                report(f"The bucket {name} is empty.")


def _delete_keys(gateway: Any, environment: Environment, report: Callable[[str], object]) -> None:
    """Delete the API keys of the environment's usage plan, which belong to no stack."""
    plans = [
        plan
        for page in gateway.get_paginator("get_usage_plans").paginate()
        for plan in page["items"]
        if plan["name"] == environment.prefix
    ]
    for plan in plans:
        for page in gateway.get_paginator("get_usage_plan_keys").paginate(usagePlanId=plan["id"]):
            for key in page["items"]:
                gateway.delete_api_key(apiKey=key["id"])
                report(f"The API key {key['name']} is deleted.")


def _remains(environment: Environment, retained: list[str]) -> Iterator[str]:
    """Yield what remains, and how an environment of the same name begins again."""
    yield "What remains:"
    if environment.protected:
        kept = ", ".join(f"{environment.prefix}-{name}" for name in KEPT)
        yield f"- the stacks {kept} with their data, and their cost"
    for each in retained:
        yield f"- {each}"
    yield f"- the SNS applications {environment.prefix}-…, the sender's identity in SES, certificates"
    yield "- the images in the repository of `cdk bootstrap`, which other environments may use"
    if environment.servers is None:
        for generation in generations(environment.generation):
            names = debezium_config(generation, environment.global_prefix)
            yield (
                f"- in the monolith's database the replication slot {names['slot.name']}, for which it keeps its log"
                f" until the disk is full: SELECT pg_drop_replication_slot('{names['slot.name']}');"
                f" and DROP PUBLICATION {names['publication.name']};"
            )
    if environment.protected:
        yield (
            "The next deployment continues on these stacks: `cdk deploy --import-existing-resources --all`, which takes"
            " over log groups of the same name. To remove everything, set protected to false, deploy, destroy again."
        )
    else:
        yield "The next deployment begins with nothing."


def require_name(environment: Environment, typed: str | None) -> None:
    """Require the name of a protected environment, which a person types if the command does not have it.

    Raises:
        DestroyError: It is another name.
        EOFError: There is no person.
    """
    if environment.protected:
        if typed is None:
            typed = input(f"Type {environment.name} to destroy it: ")
        if typed != environment.name:
            raise DestroyError(f"{environment.name} is protected, and its name was not typed. Nothing was changed.")


def main() -> int:
    """Run the command and return its exit status: 1 if it was refused or a stack could not be deleted."""
    parser = argparse.ArgumentParser(prog="python -m infra.destroy", description=__doc__)
    parser.add_argument("environment")
    parser.add_argument("--confirm", metavar="NAME", help="the name of a protected environment, instead of typing it")
    add_folder_option(parser)
    chosen = parser.parse_args()
    session: Any = boto3.Session()
    try:
        environment = environment_of(chosen.environment, chosen.folder)
        require_name(environment, chosen.confirm)
        region = {} if environment.name == LOCAL else {"region_name": environment.region}
        destroy(lambda service: session.client(service, **region), environment, threading.Event().wait, print)
    except (DestroyError, ValueError, EOFError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
