"""Creates the alarms. The description of each alarm names its runbook; all alarms notify the same SNS topic."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.topic import topic
from masscomm.observability.metric_names import ENVIRONMENT, NAMESPACE, SERVICE, Metric

RUNBOOKS = "docs/runbooks"
MINUTE, HOUR = Duration.minutes(1), Duration.hours(1)


def metric(
    namespace: str, name: str, statistic: str, dimensions: dict[str, str], *, period: Duration = MINUTE
) -> cloudwatch.Metric:
    """Return a CloudWatch metric of an AWS service, or of masscomm (namespace `masscomm`)."""
    return cloudwatch.Metric(
        namespace=namespace, metric_name=name, statistic=statistic, dimensions_map=dimensions, period=period
    )


def ours(
    environment: Environment, of: Metric, service: str, statistic: str = "Sum", *, period: Duration = MINUTE
) -> cloudwatch.Metric:
    """Return one of masscomm's own metrics with the dimensions of one service."""
    dimensions = {ENVIRONMENT: environment.name, SERVICE: service}
    return metric(NAMESPACE, of.name, statistic, dimensions, period=period)


@dataclass(frozen=True)
class Watch:
    """An alarm that triggers when a metric is at or above its threshold in each of its last `periods` periods."""

    name: str
    # The name of the alarm's file in docs/runbooks, without the suffix.
    runbook: str
    # The description of the alarm: one sentence.
    description: str
    of: cloudwatch.IMetric
    threshold: float
    _: KW_ONLY
    # The number of periods of the metric that are evaluated; most metrics have periods of a minute.
    periods: int = 5
    # The number of the evaluated periods that must breach the threshold to trigger the alarm; None: all of them.
    most: int | None = None
    # Whether the alarm triggers below the threshold instead.
    below: bool = False
    # Whether missing data triggers the alarm.
    missing_data_alarms: bool = False


class Alarms(Construct):
    """Creates an alarm for each entry of the alarm table.

    Attributes:
        topic: The SNS topic that all alarms notify.
        alarms: The alarms in the order of the table.
    """

    def __init__(self, scope: Construct, *, environment: Environment, key: kms.IKey, table: Iterable[Watch]) -> None:
        super().__init__(scope, "alarms")
        self.topic = topic(
            self, "topic", name=f"{environment.prefix}-alarms", key=key, publisher="cloudwatch.amazonaws.com"
        )
        self.topic.add_subscription(subscriptions.EmailSubscription(environment.alarm_email))
        self.alarms = [self._alarm(each, environment) for each in table]

    def _alarm(self, watch: Watch, environment: Environment) -> cloudwatch.Alarm:
        operator, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            watch.name,
            alarm_name=f"{environment.prefix}-{watch.name}",
            alarm_description=f"{watch.description} Runbook: {RUNBOOKS}/{watch.runbook}.md",
            metric=watch.of,
            threshold=watch.threshold,
            evaluation_periods=watch.periods,
            datapoints_to_alarm=watch.most or watch.periods,
            comparison_operator=operator.LESS_THAN_THRESHOLD
            if watch.below
            else operator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=missing.BREACHING if watch.missing_data_alarms else missing.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        alarm.add_ok_action(actions.SnsAction(self.topic))
        return alarm
