"""The stack of alarms and the dashboard."""

import hashlib
from dataclasses import dataclass
from itertools import batched

from aws_cdk import Stack
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.alarms import Alarms, watched
from infra.cdk.resources.rest_api import STAGE
from infra.cdk.stacks.api import ApiStack
from infra.cdk.stacks.cdc import CdcStack
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.directory_state import DirectoryStateStack
from infra.cdk.stacks.events import EventsStack
from infra.cdk.stacks.external_data import ExternalDataStack
from infra.cdk.stacks.functions import FunctionsStack
from infra.cdk.stacks.metrics import MetricsStack
from infra.cdk.stacks.network import NetworkStack
from infra.cdk.stacks.registry import RegistryStack
from masscomm.domain.statuses import Status
from masscomm.observability.metric_names import CHANGE_DATA_AGE, DEAD_LETTERS, METRICS_AGE, OLDEST_DUE, RECIPIENTS
from ops.alarms.rules import Series, ours
from ops.alarms.series import lag, of_function
from ops.alarms.table import Installation, Servers, rules

# The maximum number of alarms in a dashboard widget; CloudWatch refuses more.
ALARMS_A_WIDGET = 100


@dataclass(frozen=True, kw_only=True)
class ServerStacks:
    """The stacks of the servers that the deployment creates."""

    data: DataStack
    registry: RegistryStack
    # None: the organisation's Kafka Connect captures changes.
    cdc: CdcStack | None
    metrics: MetricsStack
    # None: the organisation has no topics of its own as a source of events.
    events: EventsStack | None


class ObservabilityStack(Stack):
    """The stack of alarms, budget and dashboard.

    Args:
        servers: The stacks of the servers; None for external servers, which their owner monitors.
        state: The stack of directory_state; None: there is none.

    Attributes:
        alarms: The alarms, each of which names its runbook.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        base: NetworkStack,
        data: DataStack | ExternalDataStack,
        functions: FunctionsStack,
        api: ApiStack,
        servers: ServerStacks | None,
        state: DirectoryStateStack | None,
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-observability", env={"region": environment.region})
        self._environment = environment
        installed = _installed(environment, data, functions, api, servers, state, self.account)
        self.alarms = Alarms(self, environment=environment, key=base.key, rules=rules(installed))
        self._budget()
        if not environment.few_alarms:
            self._dashboard(functions, data, api)

    def _budget(self) -> None:
        address = self._environment.alarm_email
        subscriber = budgets.CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=address)
        # Another subscriber needs another budget, which CloudFormation creates before it deletes the former one: their
        # names must differ.
        digest = hashlib.sha256(address.encode()).hexdigest()[:8]
        budgets.CfnBudget(
            self,
            "budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=f"{self._environment.global_prefix} docs/runbooks/cost.md {digest}",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=self._environment.budget_usd, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:environment${self._environment.name}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        comparison_operator="GREATER_THAN", notification_type=kind, threshold=percent
                    ),
                    subscribers=[subscriber],
                )
                for kind, percent in (("ACTUAL", 80), ("FORECASTED", 100))
            ],
        )

    def _dashboard(self, functions: FunctionsStack, data: DataStack | ExternalDataStack, api: ApiStack) -> None:
        def lambdas(figure: str, statistic: str) -> list[cloudwatch.IMetric]:
            return [watched(of_function(each.name, figure, statistic)) for each in functions.functions.values()]

        lags = [
            watched(lag(data.kafka.name, group=group, topic=topic))
            for sources in functions.event_sources.values()
            for topic, group in sources.groups.items()
        ]
        packages = sorted({each.entry.package for each in functions.functions.values()})
        name = self._environment.name
        dead = [watched(ours(name, DEAD_LETTERS, package)) for package in packages]
        dimensions = {"ApiName": api.rest.api.rest_api_name}
        requests = [
            watched(Series(namespace="AWS/ApiGateway", name=figure, statistic="Sum", dimensions=dimensions))
            for figure in ("Count", "4XXError", "5XXError")
        ]
        notifications = [watched(ours(name, RECIPIENTS[status], "delivery")) for status in (Status.SENT, Status.FAILED)]
        freshness = [
            watched(ours(name, of, service, "Maximum"))
            for of, service in (
                (CHANGE_DATA_AGE, "cdc_consumer"),
                (METRICS_AGE, "spark_metrics"),
                (OLDEST_DUE, "scheduler"),
            )
        ]
        graphs = {
            "Notifications": notifications,
            "Age of the data that is read (s)": freshness,
            "Age of the oldest waiting record (s)": lags,
            "Invocations": lambdas("Invocations", "Sum"),
            "Errors": lambdas("Errors", "Sum"),
            "Duration, p99 (ms)": lambdas("Duration", "p99"),
            "Concurrency": lambdas("ConcurrentExecutions", "Maximum"),
            "Dead letters": dead,
            "Requests": requests,
        }
        cloudwatch.Dashboard(
            self,
            "dashboard",
            dashboard_name=self._environment.global_prefix,
            widgets=[
                *(
                    [cloudwatch.AlarmStatusWidget(title="Alarms", width=24, alarms=list(some))]
                    for some in batched(self.alarms.alarms, ALARMS_A_WIDGET, strict=False)
                ),
                *([cloudwatch.GraphWidget(title=title, width=24, left=left)] for title, left in graphs.items()),
            ],
        )


def _installed(
    environment: Environment,
    data: DataStack | ExternalDataStack,
    functions: FunctionsStack,
    api: ApiStack,
    servers: ServerStacks | None,
    state: DirectoryStateStack | None,
    account: str,
) -> Installation:
    """Return the resources that the alarms watch."""
    helpers = {"authorizer": api.authorizer.function}
    if data.audit_copy is not None:
        helpers["copy-audit"] = data.audit_copy.copier
    if servers is not None:
        if servers.metrics.counting is not None:
            helpers["keep-job"] = servers.metrics.counting.job.keeper
            helpers["start-run"] = servers.metrics.counting.runs.starter
        if servers.events is not None:
            helpers["keep-events-job"] = servers.events.job.keeper
    return Installation(
        environment=environment.name,
        entries={name: each.entry for name, each in functions.functions.items()},
        functions={name: each.name for name, each in functions.functions.items()},
        helpers={name: each.function_name for name, each in helpers.items()},
        missed={name: each.queue_name for name, each in functions.missed.items()},
        groups={name: each.groups for name, each in functions.event_sources.items()},
        mappings={
            name: [mapping.attr_id for mapping in each.mappings.values()]
            for name, each in functions.event_sources.items()
        },
        cluster=data.kafka.name,
        brokers=environment.kafka.brokers,
        burstable_brokers=environment.kafka.instance_type.startswith("kafka.t3."),
        directory={"DomainName": data.directory.name, "ClientId": account},
        tables={name: table.table_name for name, table in data.tables.items()},
        api=api.rest.api.rest_api_name,
        stage=STAGE,
        applications={platform: (f"{environment.prefix}-{platform}", kind) for platform, kind in environment.platforms},
        servers=None if servers is None else _servers(servers, state, environment),
        on_demand=environment.pollers is None,
        few=environment.few_alarms,
    )


def _servers(stacks: ServerStacks, state: DirectoryStateStack | None, environment: Environment) -> Servers:
    databases = {each.name: each for each in (stacks.data.metrics, stacks.registry.database) if each is not None}
    registry, cdc, counting = stacks.registry.service, stacks.cdc, stacks.metrics.counting
    return Servers(
        databases={name: each.instance.instance_identifier for name, each in databases.items()},
        connections={name: each.connections for name, each in databases.items()},
        connectors=cdc.debezium.names if cdc and cdc.debezium else {},
        registry=_dimensions(registry.service) if registry else None,
        connect_task=_dimensions(cdc.task.service) if cdc and cdc.task else None,
        directory_state=[_dimensions(each) for each in state.services] if state else [],
        insights=not environment.few_alarms,
        every_minutes=environment.spark.every_minutes,
        job=counting.job.name if counting else None,
        events_job=None if stacks.events is None else stacks.events.job.name,
    )


def _dimensions(service: ecs.FargateService) -> dict[str, str]:
    """Return the dimensions of the metrics of a service."""
    return {"ClusterName": service.cluster.cluster_name, "ServiceName": service.service_name}
