"""Creates the triggers of functions/receipts: delivery statuses that SNS and SES report after they have accepted a
message.
"""

from collections.abc import Mapping

from aws_cdk import Acknowledgment, Duration, Stack, Validations
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_logs_destinations as log_destinations
from aws_cdk import aws_ses as ses
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from aws_cdk import custom_resources as custom
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.call import call
from infra.cdk.resources.findings import explain
from infra.cdk.resources.function import MasscommFunction
from infra.cdk.resources.logs import log_group
from infra.cdk.resources.ses_tenants import ses_tenants
from infra.cdk.resources.topic import topic
from masscomm.domain.email_settings import table_of

# The final events of an e-mail; delays, opens and clicks change no status.
_MAIL_EVENTS = [
    ses.EmailSendingEvent.DELIVERY,
    ses.EmailSendingEvent.BOUNCE,
    ses.EmailSendingEvent.COMPLAINT,
    ses.EmailSendingEvent.REJECT,
    ses.EmailSendingEvent.RENDERING_FAILURE,
]


def configuration_set(environment: Environment) -> str:
    """Return the name of the SES configuration set with which delivery sends: SES reports the events of these
    e-mails.
    """
    return environment.prefix


def sms_answers(environment: Environment) -> str:
    """Return the name of the SNS topic to which AWS End User Messaging publishes the answers to SMS."""
    return f"{environment.prefix}-sms-answers"


class Receipts(Construct):
    """The triggers of the receipts function.

    Args:
        applications: The ARNs of the SNS platform applications by platform. They must exist before the deployment.

    Attributes:
        missed: The dead-letter queue of the triggers, with a retention of 14 days, the longest that SQS has.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        function: MasscommFunction,
        environment: Environment,
        key: kms.IKey,
        applications: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "triggers")
        self._function, self._environment, self._key = function, environment, key
        self.missed = sqs.Queue(
            self,
            "missed",
            queue_name=f"{function.name}-missed",
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=key,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        explain(self.missed, "it is the dead-letter queue of the function's triggers", "SQS3")
        function.keep_failed_events(self.missed, key)
        failures = self._failures()
        for platform, arn in applications.items():
            self._subscribe_to_push_logs(platform, arn, failures)
        self._subscribe_to_mail_events()
        self._subscribe_to_text_events()
        # The numbers of two-way senders are set up with this topic by hand (schemas/sms.yaml).
        self._subscribe(
            topic(
                self,
                "sms-answers",
                name=sms_answers(environment),
                key=key,
                publisher="sms-voice.amazonaws.com",
            )
        )

    def _failures(self) -> sns.Topic:
        """Return the SNS topic for EventDeliveryFailure events, which report invalid device tokens sooner than the logs
        do.
        """
        failures = topic(self, "push-failures", name=f"{self._environment.prefix}-push-failures", key=self._key)
        self._subscribe(failures)
        return failures

    def _subscribe(self, to: sns.Topic) -> None:
        subscription = to.add_subscription(
            subscriptions.LambdaSubscription(self._function.alias, dead_letter_queue=self.missed)
        )
        Validations.of(subscription).acknowledge(
            Acknowledgment(id="CloudFormation-Validate::W3694", reason="SNS accepts the ARN of a function's alias")
        )

    def _subscribe_to_push_logs(self, platform: str, application: str, failures: sns.Topic) -> None:
        """Subscribe to the delivery status logs of an application: two log groups with names that SNS determines."""
        stack = Stack.of(self)
        name = f"sns/{stack.region}/{stack.account}/{application.rpartition(':')[2]}"
        groups = {
            kind: log_group(
                self, f"{platform}-{kind}", environment=self._environment, key=self._key, name=f"{name}{suffix}"
            )
            for kind, suffix in (("taken", ""), ("refused", "/Failure"))
        }
        for kind, group in groups.items():
            logs.SubscriptionFilter(
                self,
                f"{platform}-{kind}-receipts",
                log_group=group,
                destination=log_destinations.LambdaDestination(self._function.alias),
                filter_pattern=logs.FilterPattern.all_events(),
            )
        role = iam.Role(self, f"{platform}-logs", assumed_by=iam.ServicePrincipal("sns.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[group.log_group_arn for group in groups.values()],
            )
        )
        sdk_call = custom.AwsSdkCall(
            service="SNS",
            action="setPlatformApplicationAttributes",
            parameters={
                "PlatformApplicationArn": application,
                "Attributes": {
                    "SuccessFeedbackRoleArn": role.role_arn,
                    "FailureFeedbackRoleArn": role.role_arn,
                    "SuccessFeedbackSampleRate": str(self._environment.receipts_percent),
                    "EventDeliveryFailure": failures.topic_arn,
                },
            },
            physical_resource_id=custom.PhysicalResourceId.of(f"{platform}-receipts"),
        )
        # CloudFormation has no resource type for platform applications: an operator creates them, and an API call sets
        # their attributes here.
        call(
            self,
            f"{platform}-attributes",
            environment=self._environment,
            key=self._key,
            sdk_call=sdk_call,
            statements=[
                iam.PolicyStatement(actions=["sns:SetPlatformApplicationAttributes"], resources=[application]),
                iam.PolicyStatement(actions=["iam:PassRole"], resources=[role.role_arn]),
            ],
        ).node.add_dependency(role)

    def _subscribe_to_mail_events(self) -> None:
        """Subscribe to SES events of our configuration set, on the account's default event bus."""
        name = configuration_set(self._environment)
        configured = ses.ConfigurationSet(
            self, "mail", configuration_set_name=name, tls_policy=ses.ConfigurationSetTlsPolicy.REQUIRE
        )
        bus = events.EventBus.from_event_bus_name(self, "bus", "default")
        configured.add_event_destination("bus", destination=ses.EventDestination.event_bus(bus), events=_MAIL_EVENTS)
        emails = table_of(self._environment.sender, name)
        names = list(dict.fromkeys((name, *emails.configuration_sets)))
        events.Rule(
            self,
            "mail-receipts",
            # The default bus has the events of the whole account, so the pattern selects the configuration sets of this
            # environment and of its tenants.
            event_pattern=events.EventPattern(
                source=["aws.ses"], detail={"mail": {"tags": {"ses:configuration-set": names}}}
            ),
            targets=[targets.LambdaFunction(self._function.alias, dead_letter_queue=self.missed)],
        )

        ses_tenants(self, self._environment, emails, after=configured)
        if emails.ses_tenants:
            events.Rule(
                self,
                "tenant-statuses",
                # An environment ignores the events of tenants that its schemas/email.yaml does not name.
                event_pattern=events.EventPattern(source=["aws.ses"], detail_type=["Sending Status Disabled"]),
                targets=[targets.LambdaFunction(self._function.alias, dead_letter_queue=self.missed)],
            )

    def _subscribe_to_text_events(self) -> None:
        """Subscribe to the events of SMS, which the service publishes to the account's default event bus by itself.

        They name no environment: an environment ignores the events of messages that another one has sent.
        """
        events.Rule(
            self,
            "text-receipts",
            event_pattern=events.EventPattern(
                source=["aws.sms-voice"], detail_type=["Text Message Delivery Status Updated"]
            ),
            targets=[targets.LambdaFunction(self._function.alias, dead_letter_queue=self.missed)],
        )
