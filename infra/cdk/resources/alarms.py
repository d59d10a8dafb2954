"""Alarms: each says which runbook is for it, and calls the same people."""

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
MINUTE = Duration.minutes(1)


def metric(
    namespace: str, name: str, statistic: str, dimensions: dict[str, str], *, period: Duration = MINUTE
) -> cloudwatch.Metric:
    """A metric of a service, or of ours (namespace `masscomm`)."""
    return cloudwatch.Metric(
        namespace=namespace, metric_name=name, statistic=statistic, dimensions_map=dimensions, period=period
    )


def ours(environment: Environment, of: Metric, service: str, statistic: str = "Sum") -> cloudwatch.Metric:
    """A metric of our vocabulary, as one of our functions tells it."""
    return metric(NAMESPACE, of.name, statistic, {ENVIRONMENT: environment.name, SERVICE: service})


@dataclass(frozen=True)
class Watch:
    """An alarm where the figure is at the threshold or above (below: less) in `minutes` minutes.

    what: what has happened, in words; runbook: its file in docs/runbooks, without ending; most: so many of the minutes
    are enough; silence_is_bad: no data is an alarm, too.
    """

    name: str
    runbook: str
    what: str
    of: cloudwatch.IMetric
    threshold: float
    _: KW_ONLY
    minutes: int = 5
    most: int | None = None
    below: bool = False
    silence_is_bad: bool = False


class Alarms(Construct):
    """One alarm a row of the table. topic: whom they call; alarms: as the table has them."""

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
            alarm_description=f"{watch.what} Runbook: {RUNBOOKS}/{watch.runbook}.md",
            metric=watch.of,
            threshold=watch.threshold,
            evaluation_periods=watch.minutes,
            datapoints_to_alarm=watch.most or watch.minutes,
            comparison_operator=operator.LESS_THAN_THRESHOLD
            if watch.below
            else operator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=missing.BREACHING if watch.silence_is_bad else missing.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        alarm.add_ok_action(actions.SnsAction(self.topic))
        return alarm
