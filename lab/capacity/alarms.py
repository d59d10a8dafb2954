"""Counts the metrics of an environment's alarms, each of which CloudWatch charges."""

from dataclasses import replace

from infra.cdk.config import Environment
from infra.cdk.parts import deployed
from ops.alarms.installation import installation
from ops.alarms.table import Installation, Servers, rules


def alarm_metrics(environment: Environment) -> int:
    """Return the number of metrics that the alarms of an environment read; an alarm may read several."""
    return sum(len(rule.series) for rule in rules(_installation(environment)))


def _installation(environment: Environment) -> Installation:
    """Return what the alarms of an environment watch, as infra/cdk/stacks/observability.py does. The names are none of
    a deployment, because only their number matters.
    """
    helpers = ["authorizer"]
    if environment.protected:
        helpers.append("copy-audit")
    if environment.has("metrics"):
        helpers += ["keep-job", "start-run"]
    if environment.event_sources is not None:
        helpers.append("keep-events-job")
    found = installation(environment.name, deployed(environment), helpers=helpers, servers=_servers(environment))
    return replace(
        found,
        missed={name: each for name, each in found.missed.items() if name != "receipts" or environment.receipts},
        brokers=environment.kafka.brokers,
        burstable_brokers=environment.kafka.instance_type.startswith("kafka.t3."),
        applications={platform: (platform, kind) for platform, kind in environment.platforms},
        on_demand=environment.pollers is None,
        few=environment.few_alarms,
    )


def _servers(environment: Environment) -> Servers:
    existing = environment.existing
    # An organisation's instance is watched, too.
    databases = ["metrics"]
    if environment.database.registry_instance_type is not None and existing.registry is None:
        databases.append("registry")
    in_task = environment.connect_task is not None
    captures = environment.has("cdc") and not in_task
    tasks = 0 if environment.directory_state is None else environment.directory_state.tasks
    return Servers(
        databases={name: name for name in databases},
        connections=dict.fromkeys(databases, 100),
        connectors={name: name for name in environment.generation.split(",")} if captures else {},
        registry=None if existing.registry is not None else {"ServiceName": "registry"},
        connect_task={"ServiceName": "connect"} if in_task else None,
        directory_state=[{"ServiceName": f"directory-state-{number}"} for number in range(tasks)],
        insights=not environment.few_alarms,
        every_minutes=environment.spark.every_minutes,
        job="job" if environment.has("metrics") else None,
        events_job=None if environment.event_sources is None else "events",
    )
