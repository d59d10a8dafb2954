"""The Lambda functions with their triggers and permissions."""

from collections import Counter

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.catalogue import PREFIX, FunctionEntry
from infra.cdk.concurrency import concurrent_invocations, partitions_of
from infra.cdk.config import Environment
from infra.cdk.parts import deployed
from infra.cdk.profiles import CONNECT_OFFSETS_TOPIC, LEDGER, METRICS_READER, PROFILES, SENDS
from infra.cdk.resources.door import Door
from infra.cdk.resources.event_sources import EventSources, QueueMapping, consumer_group, grant_discarded
from infra.cdk.resources.findings import explain
from infra.cdk.resources.function import MasscommFunction
from infra.cdk.resources.key import webhook_secrets_key
from infra.cdk.resources.logs import removal
from infra.cdk.resources.receipts import Receipts, configuration_set
from infra.cdk.resources.registry_access import RegistryAccess
from infra.cdk.resources.unsubscribe_mailbox import receipt_rule
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.external_data import ExternalDataStack
from infra.cdk.stacks.grants import CDC_CONSUMER, grant_profile, marks_batches
from infra.cdk.stacks.network import NetworkStack
from masscomm.directory.chosen import STATE
from masscomm.domain.channels import CHANNELS
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.webhook_authentication import PURPOSE
from masscomm.kafka.outcome_progress import GROUP as OUTCOMES_GROUP
from masscomm.kafka.topics import OUTCOME, chain_topics, lane_of
from masscomm.operations.health import GROUP
from masscomm.stores.discarded_batches.s3 import BUCKET_SETTING
from masscomm.stores.send_results.port import SETTING, SETTINGS


class FunctionsStack(Stack):
    """The stack of the functions.

    Attributes:
        functions: The functions by their names in functions.yaml.
        event_sources: The event source mappings of each function that has any.
        missed: The dead-letter queues of schedules and receipt triggers, by function.
        state_token: The secret with the token that callers of directory_state present; None: there is no such service.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        base: NetworkStack,
        data: DataStack | ExternalDataStack,
        door: Door | None,
        registry: RegistryAccess,
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-functions", env={"region": environment.region})
        self._environment, self._base, self._data, self._registry = environment, base, data, registry
        self._door = door
        self._unsubscribe_keys = self._signing_keys(
            "unsubscribe-keys",
            "The keys that sign unsubscribe links, by id, and the id of the current one.",
            "links in e-mails are valid for 400 days: an operator adds a key and removes an old one",
        )
        self._webhook_keys = self._signing_keys(
            "webhook-keys",
            "The keys from which the secrets of webhook endpoints are derived, by id, and the id of the current one.",
            "receivers configure the derived secrets: an operator adds a key, and each receiver changes over",
        )
        self.state_token = None if environment.directory_state is None else self._state_token()
        self._webhook_secrets = webhook_secrets_key(self, environment=environment)
        catalogue = deployed(environment)
        lanes = Counter(entry.package for entry in catalogue)
        self.event_sources: dict[str, EventSources] = {}
        self.missed: dict[str, sqs.Queue] = {}
        self.functions = {entry.name: self._function(entry, lanes[entry.package]) for entry in catalogue}

    def _function(self, entry: FunctionEntry, lanes: int) -> MasscommFunction:
        profile = PROFILES[entry.package]
        function = MasscommFunction(
            self,
            entry=entry,
            environment=self._environment,
            key=self._base.key,
            place=None if profile.calls_internet else self._base.network.place("functions"),
            variables=self._variables(entry),
            warmth=profile.critical if entry.lane is Lane.CRITICAL else profile.warmth,
        )
        grant_profile(
            function,
            data=self._data,
            environment=self._environment,
            lanes=lanes,
            applications=self._applications().values(),
        )
        if not profile.calls_internet:
            function.grant(self._registry.statements(function))
        secrets = [self._unsubscribe_keys] if profile.unsubscribe_links else []
        secrets += [self._webhook_keys] if profile.webhook_keys else []
        secrets += [self.state_token] if profile.looks_up and self.state_token is not None else []
        if secrets:
            function.grant(
                [
                    iam.PolicyStatement(
                        actions=["secretsmanager:GetSecretValue"], resources=[each.secret_arn for each in secrets]
                    ),
                    iam.PolicyStatement(
                        actions=["kms:Decrypt"],
                        resources=[self._base.key.key_arn],
                        conditions={"StringEquals": {"kms:ViaService": f"secretsmanager.{self.region}.amazonaws.com"}},
                    ),
                ]
            )
        if profile.webhook_secrets:
            function.grant(
                [
                    iam.PolicyStatement(
                        actions=[f"kms:{operation}" for operation in profile.webhook_secrets],
                        resources=[self._webhook_secrets.key_arn],
                        conditions={"StringEquals": {"kms:EncryptionContext:purpose": PURPOSE}},
                    )
                ]
            )
        if profile.returns_batches and (discarded := self._data.buckets.discarded):
            objects = ("s3:GetObject", "s3:DeleteObject")
            grant_discarded(function, discarded, self._base.key, objects=objects, key_use="kms:Decrypt")
        if entry.event_source is not None:
            self.event_sources[entry.name] = EventSources(
                function,
                function=function,
                kafka=self._data.kafka,
                environment=self._environment,
                discarded=self._data.buckets.discarded,
                key=self._base.key,
            )
        if entry.queue is not None and self._door is not None:
            QueueMapping(function, function=function, queue=self._door.queue, key=self._base.key)
        if entry.schedule_s is not None:
            self._schedule(function, Duration.seconds(entry.schedule_s))
        if profile.receipts and self._environment.receipts:
            triggers = Receipts(
                function,
                function=function,
                environment=self._environment,
                key=self._base.key,
                applications=self._applications(),
            )
            self.missed[entry.name] = triggers.missed
        if profile.reads_mailbox and (mailbox := self._environment.unsubscribe_mailbox) is not None:
            function.keep_failed_events(self.missed[entry.name], self._base.key)
            receipt_rule(function, function=function, mailbox=mailbox, name=f"{self._environment.prefix}-unsubscribe")
        return function

    def _signing_keys(self, name: str, description: str, why_not_rotated: str) -> secretsmanager.Secret:
        """Return a secret with signing keys (masscomm.domain.signing_keys); the first key is generated."""
        environment = self._environment
        keys = secretsmanager.Secret(
            self,
            name,
            secret_name=f"{environment.prefix}/{name}",
            description=description,
            encryption_key=self._base.key,
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template='{"current": "1"}',  # noqa: S106 - the generated key is added to it
                generate_string_key="1",
                password_length=48,
                exclude_punctuation=True,
            ),
            removal_policy=removal(environment),
        )
        explain(keys, why_not_rotated, "SMG4")
        return keys

    def _state_token(self) -> secretsmanager.Secret:
        token = secretsmanager.Secret(
            self,
            "directory-state-token",
            secret_name=f"{self._environment.prefix}/directory-state-token",
            description="the token that callers of directory_state present",
            encryption_key=self._base.key,
            generate_secret_string=secretsmanager.SecretStringGenerator(password_length=48, exclude_punctuation=True),
            removal_policy=removal(self._environment),
        )
        explain(token, "an operator replaces it: tasks read it when they start, functions after a refusal", "SMG4")
        return token

    def _variables(self, entry: FunctionEntry) -> dict[str, str]:
        """Return the environment variables that masscomm.environment reads; none is a secret."""
        environment, data, profile = self._environment, self._data, PROFILES[entry.package]
        variables = {"LOG_LEVEL": "INFO"}
        if environment.pollers is None and entry.event_source is not None:
            variables |= entry.event_source.on_demand_environment
        if profile.returns_batches and data.buckets.discarded is not None:
            variables[BUCKET_SETTING] = data.buckets.discarded.bucket_name
        if marks_batches(entry, environment):
            variables[f"{LEDGER.upper()}_TABLE"] = data.tables[LEDGER].table_name
        if not profile.calls_internet:
            variables |= {
                "KAFKA_BOOTSTRAP_SERVERS": data.kafka.bootstrap_servers,
                "KAFKA_AUTHENTICATION": data.kafka.authentication,
                **self._registry.variables,
            }
        if profile.chooses_queue:
            variables["BROADCAST_QUEUES"] = str(environment.broadcast_queues)
        if profile.requests:
            variables |= {
                "OPENSEARCH_URL": data.directory.url,
                "OPENSEARCH_AUTHENTICATION": data.directory.authentication,
            }
        if profile.requests or profile.marks_changelogs:
            variables["CDC_GENERATION"] = environment.generation
        state = environment.directory_state
        if profile.looks_up and state is not None and self.state_token is not None and state.answers:
            variables |= {
                "MASSCOMM_DIRECTORY": STATE,
                "DIRECTORY_STATE_URL": ",".join(
                    f"https://{environment.registry.domain}:{port}" for port in state.ports
                ),
                "DIRECTORY_STATE_TOKEN_SECRET_ARN": self.state_token.secret_arn,
            }
        if profile.asks_cdc:
            variables |= {
                "CDC_CONSUMER_GROUP": consumer_group(f"{PREFIX}.{CDC_CONSUMER}", "{topic}"),
                "CONNECT_OFFSETS_TOPIC": CONNECT_OFFSETS_TOPIC,
            }
        if profile.checks_sends and environment.receipts:
            # Events of SMS arrive within 72 hours or never.
            variables["COMPLETE_RECEIPTS"] = "email"
        if profile.asks_outcomes:
            variables["OUTCOME_CONSUMER_GROUP"] = consumer_group(OUTCOMES_GROUP, OUTCOME)
        if profile.operates:
            variables["CONSUMER_GROUPS"] = consumer_group(GROUP, "{topic}")
            variables["ALARM_PREFIX"] = f"{environment.prefix}-"
        # The stores in masscomm read the table names from these variables.
        variables |= {f"{name.upper()}_TABLE": data.tables[name].table_name for name in profile.every_table}
        if SENDS in profile.every_table and not environment.send_results:
            variables[SETTING] = SETTINGS[1]
        if profile.email or profile.unsubscribe_links or profile.checks_senders:
            # The page of an unsubscribe link names the sender.
            variables["SES_SENDER"] = environment.sender
        if (profile.email or profile.checks_senders) and environment.receipts:
            variables["SES_CONFIGURATION_SET"] = configuration_set(environment)
        mailbox = environment.unsubscribe_mailbox
        if profile.unsubscribe_links or profile.operates:
            ways_out = {
                "UNSUBSCRIBE_URL": environment.unsubscribe_url,
                "UNSUBSCRIBE_MAILBOX": mailbox and mailbox.address,
            }
            variables |= {name: value for name, value in ways_out.items() if value}
        if profile.unsubscribe_links:
            variables["UNSUBSCRIBE_KEYS_SECRET_ARN"] = self._unsubscribe_keys.secret_arn
        if profile.webhook_keys:
            variables["WEBHOOK_KEYS_SECRET_ARN"] = self._webhook_keys.secret_arn
        if profile.webhook_secrets:
            variables["WEBHOOK_KMS_KEY"] = self._webhook_secrets.key_arn
        if profile.makes_sources and self._door is not None:
            variables["DOOR_URL"] = self._door.url
        if profile.push or profile.email:
            variables |= self._shares(entry)
        if profile.registers_endpoints:
            variables |= {
                f"PLATFORM_APPLICATION_ARN_{platform.upper()}": arn for platform, arn in self._applications().items()
            }
        if entry.name in ("metrics_stream", "sends_stream", "users_stream"):
            variables["METRICS_OPEN_POLLS"] = str(environment.api.open_polls)
        if profile.database:
            variables |= {
                "METRICS_DATABASE_URL": data.database.url(METRICS_READER),
                "METRICS_DATABASE_AUTHENTICATION": data.database.authentication,
            }
        return variables

    def _shares(self, entry: FunctionEntry) -> dict[str, str]:
        """Return the initial sending rates of one execution environment of the function, in messages per second.

        A rate is the lane's share of the account's quota, divided by the maximum number of concurrent environments for
        one tenant's broadcast and for small sends. Several broadcasting tenants each begin with this rate; the
        provider's throttling then distributes the quota (docs/decisions/033-rate-limiter.md).
        """
        environment, source = self._environment, entry.event_source
        if source is None:
            raise ValueError(f"{entry.name} publishes but has no event source: its concurrency is unknown")
        providers = environment.providers
        percent = providers.critical_percent if entry.lane is Lane.CRITICAL else 100 - providers.critical_percent
        topics = [
            topic
            for topic in chain_topics()
            if topic.name in source.topics and lane_of(topic.name) not in BROADCASTS[1:]
        ]
        invoked = sum(concurrent_invocations(partitions_of(topic, environment), environment) for topic in topics)
        return {
            CHANNELS[name].rate_setting: f"{quota * percent / 100 / invoked:.3g}"
            for name, quota in providers.per_s.items()
        }

    def _applications(self) -> dict[str, str]:
        """Return the ARNs of the SNS platform applications by platform. An operator creates the applications with
        their credentials.
        """
        prefix = self._environment.prefix
        return {
            platform: self.format_arn(service="sns", resource="app", resource_name=f"{kind}/{prefix}-{platform}")
            for platform, kind in self._environment.platforms
        }

    def _schedule(self, function: MasscommFunction, every: Duration) -> None:
        missed = sqs.Queue(
            function,
            "missed",
            queue_name=f"{function.name}-missed",
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=self._base.key,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        self.missed[function.entry.name] = missed
        explain(missed, "it is the dead-letter queue of the schedule", "SQS3")
        events.Rule(
            function,
            "schedule",
            schedule=events.Schedule.rate(every),
            targets=[
                # A failed sweep of due records is not retried, because the next sweep finds the same records. The queue
                # only makes failures visible.
                targets.LambdaFunction(
                    function.alias, dead_letter_queue=missed, retry_attempts=0, max_event_age=Duration.seconds(60)
                )
            ],
        )
