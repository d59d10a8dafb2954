"""Creates the alarms. The description of each alarm names its runbook; all alarms notify the same SNS topic."""

from collections.abc import Iterable

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.topic import topic
from ops.alarms.rules import MINUTE_S, Formula, Rule, Series


def watched(of: Series | Formula) -> cloudwatch.IMetric:
    """Return a metric, or an expression on metrics."""
    if isinstance(of, Formula):
        return cloudwatch.MathExpression(
            expression=of.operation.expression,
            using_metrics={name: watched(series) for name, series in of.used.items()},
            label=of.label,
            period=Duration.seconds(MINUTE_S),
        )
    return cloudwatch.Metric(
        namespace=of.namespace,
        metric_name=of.name,
        statistic=of.statistic,
        dimensions_map=dict(of.dimensions),
        period=Duration.seconds(of.period_s),
    )


class Alarms(Construct):
    """Creates an alarm for each rule of the alarm table.

    Attributes:
        topic: The SNS topic that all alarms notify.
        alarms: The alarms in the order of the rules.
    """

    def __init__(self, scope: Construct, *, environment: Environment, key: kms.IKey, rules: Iterable[Rule]) -> None:
        super().__init__(scope, "alarms")
        self.topic = topic(
            self, "topic", name=f"{environment.prefix}-alarms", key=key, publisher="cloudwatch.amazonaws.com"
        )
        self.topic.add_subscription(subscriptions.EmailSubscription(environment.alarm_email))
        self.alarms = [self._alarm(each, environment) for each in rules]

    def _alarm(self, rule: Rule, environment: Environment) -> cloudwatch.Alarm:
        operator, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            rule.name,
            alarm_name=f"{environment.prefix}-{rule.name}",
            alarm_description=rule.description,
            metric=watched(rule.of),
            threshold=rule.threshold,
            evaluation_periods=rule.periods,
            datapoints_to_alarm=rule.needed,
            comparison_operator=operator.LESS_THAN_THRESHOLD
            if rule.below
            else operator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=missing.BREACHING if rule.missing_data_alarms else missing.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        alarm.add_ok_action(actions.SnsAction(self.topic))
        return alarm
