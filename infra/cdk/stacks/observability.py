"""The stack of alarms and the dashboard."""

import hashlib
from dataclasses import dataclass
from itertools import batched

from aws_cdk import Stack
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.alarms import Alarms, metric, ours
from infra.cdk.stacks import alarm_table
from infra.cdk.stacks.api import ApiStack
from infra.cdk.stacks.cdc import CdcStack
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.external_data import ExternalDataStack
from infra.cdk.stacks.functions import FunctionsStack
from infra.cdk.stacks.metrics import MetricsStack
from infra.cdk.stacks.network import NetworkStack
from infra.cdk.stacks.registry import RegistryStack
from masscomm.domain.statuses import Status
from masscomm.observability.metric_names import CHANGE_DATA_AGE, DEAD_LETTERS, METRICS_AGE, OLDEST_DUE, RECIPIENTS

# The maximum number of alarms in a dashboard widget; CloudWatch refuses more.
ALARMS_A_WIDGET = 100


@dataclass(frozen=True, kw_only=True)
class ServerStacks:
    """The stacks of the servers that the deployment creates."""

    data: DataStack
    registry: RegistryStack
    cdc: CdcStack
    metrics: MetricsStack


class ObservabilityStack(Stack):
    """The stack of alarms, budget and dashboard.

    Args:
        servers: The stacks of the servers; None for external servers, which their owner monitors.

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
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-observability", env={"region": environment.region})
        self._environment = environment
        table = [
            *alarm_table.of_functions(functions),
            *alarm_table.of_helpers(api, data, servers.metrics if servers is not None else None),
            *alarm_table.of_event_sources(functions, data),
            *alarm_table.of_records(environment, functions),
            *alarm_table.of_freshness(environment, counts=servers is not None),
            *alarm_table.of_servers(environment, data, self.account),
            *alarm_table.of_api(environment, api),
            *alarm_table.of_providers(environment),
        ]
        if servers is not None:
            table += alarm_table.of_databases([servers.data.metrics, servers.registry.database])
            table += alarm_table.of_services(servers.cdc, servers.registry, servers.metrics)
        self.alarms = Alarms(self, environment=environment, key=base.key, table=table)
        self._budget()
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
                budget_name=f"{self._environment.prefix} docs/runbooks/cost.md {digest}",
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
            return [
                metric("AWS/Lambda", figure, statistic, {"FunctionName": each.name})
                for each in functions.functions.values()
            ]

        lag = [
            alarm_table.lag(data, group=group, topic=topic)
            for sources in functions.event_sources.values()
            for topic, group in sources.groups.items()
        ]
        packages = sorted({each.entry.package for each in functions.functions.values()})
        dead = [ours(self._environment, DEAD_LETTERS, package) for package in packages]
        requests = [
            metric("AWS/ApiGateway", figure, "Sum", {"ApiName": api.rest.api.rest_api_name})
            for figure in ("Count", "4XXError", "5XXError")
        ]
        notifications = [
            ours(self._environment, RECIPIENTS[status], "delivery") for status in (Status.SENT, Status.FAILED)
        ]
        freshness = [
            ours(self._environment, of, service, "Maximum")
            for of, service in (
                (CHANGE_DATA_AGE, "cdc_consumer"),
                (METRICS_AGE, "spark_metrics"),
                (OLDEST_DUE, "scheduler"),
            )
        ]
        graphs = {
            "Notifications": notifications,
            "Age of the data that is read (s)": freshness,
            "Age of the oldest waiting record (s)": lag,
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
            dashboard_name=self._environment.prefix,
            widgets=[
                *(
                    [cloudwatch.AlarmStatusWidget(title="Alarms", width=24, alarms=list(some))]
                    for some in batched(self.alarms.alarms, ALARMS_A_WIDGET, strict=False)
                ),
                *([cloudwatch.GraphWidget(title=title, width=24, left=left)] for title, left in graphs.items()),
            ],
        )
