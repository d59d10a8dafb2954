"""Provisions the local stack before the functions run: topics, schemas, indices, tables, provider applications, the
connector.

All definitions come from schemas/ (those of the monolith's tables from examples/monolith/). A second run changes
nothing. `provisioning` returns the steps with their dependencies. The other functions each do one step; tests use them
too.
"""

import json
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from confluent_kafka.cimpl import NewTopic
from mypy_boto3_dynamodb import DynamoDBClient

from cli.client_log import KAFKA_LOGGER
from functions.catalogue import read_catalogue
from local.devstack.config import EXAMPLE, GENERATION, ROOT, StackConfig, connector_name, example
from local.devstack.service import WEBHOOK_KMS_KEY, Task, function_environment, local_client
from masscomm.cdc.debezium import debezium_config
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect
from masscomm.directory.own_document_index import OpenSearchOwnDocumentIndices, note_empty
from masscomm.domain.incoming_messages import MAX_MESSAGE_BYTES
from masscomm.domain.source_tables import SOURCE_VARIABLE
from masscomm.errors import Retry
from masscomm.kafka.topics import Topic, cdc_topics, chain_topics
from masscomm.stores.discarded_batches.s3 import BUCKET_SETTING
from ops.provisioning import SCHEMAS, TIMEOUT_S, ProvisioningError
from ops.provisioning.database import apply_sql, apply_tables, unapplied_tables
from ops.provisioning.directory import create_indices, index_name, outdated_indices
from ops.provisioning.registry import register_schemas, unregistered
from ops.provisioning.source_check import require_source, source_problems

MONOLITH_MIGRATION = EXAMPLE / "schema.sql"

__all__ = ["SCHEMAS", "ProvisioningError", "apply_sql", "create_indices", "index_name", "register_schemas"]


def provisioning(config: StackConfig) -> list[Task]:
    """Return all provisioning steps for one stack, in an order in which each follows the steps that it depends on."""
    topics = [*chain_topics(), *cdc_topics(GENERATION)]
    metrics = config.database_url("metrics")
    monolith = config.monolith_url or config.database_url("monolith")
    source = (config.connect_url, GENERATION, monolith)
    directory = (config.opensearch_url, GENERATION)
    provider = LocalProvider(config)
    return [
        Task.of("topics", changed_topics, create_topics, config.kafka_bootstrap, topics).after("kafka"),
        Task.of("schemas", unregistered, register_schemas, config.registry_url, chain_topics()).after("registry"),
        Task.of("indices", outdated_indices, create_directory, *directory).after("opensearch"),
        Task.of("tables", unapplied_tables, apply_tables, metrics).after("postgres"),
        Task(
            name="monolith",
            depends_on=("postgres",),
            pending=lambda: source_problems(monolith, GENERATION),
            run=lambda: create_monolith(config),
        ),
        Task(name="aws", depends_on=("localstack",), pending=lambda: missing_in_aws(config), run=provider.provision),
        Task.of("queues", missing_queues, create_queues, config.aws_url).after("localstack"),
        Task(
            name="endpoints",
            # OpenSearch creates the indices while LocalStack creates the tables.
            depends_on=("localstack", "aws", "kafka", "indices"),
            pending=provider.lost_endpoints,
            run=provider.forget_lost_endpoints,
        ),
        Task.of("connector", changed_connector, put_connector, *source).after("connect", "topics", "monolith"),
    ]


def create_monolith(config: StackConfig) -> None:
    """Create the example's tables, and rows if it has a file of them, unless the monolith has a database of its own.

    Raises:
        ProvisioningError: MASSCOMM_SOURCE maps tables that the example does not have.
    """
    if config.monolith_url is not None:
        return
    files = [example() / "schema.sql", example() / "rows.sql"]
    apply_sql(config.database_url("monolith"), [path for path in files if path.is_file()])
    if config.source is not None:
        try:
            require_source(config.database_url("monolith"), GENERATION)
        except ProvisioningError as error:
            raise ProvisioningError(
                f"{error}\nThe stack has the tables of {example().relative_to(ROOT)}; {SOURCE_VARIABLE} maps others."
                f" Name their database, MASSCOMM_MONOLITH=postgresql://…, or unset {SOURCE_VARIABLE}."
            ) from error


# --- Kafka ------------------------------------------------------------------------------------------------------------


def create_directory(opensearch_url: str, generation: str) -> None:
    """Create the indices, or add new fields to the mappings of existing ones. The topic of own documents has all
    documents of the indices that are new.
    """
    create_indices(opensearch_url, generation)
    try:
        note_empty(OpenSearchOwnDocumentIndices(connect(opensearch_url)), SystemClock().now_ms())
    except Retry as error:
        raise ProvisioningError(f"own documents: {error}") from error


def create_topics(bootstrap: str, topics: Iterable[Topic]) -> None:
    """Create the topics that do not exist. Give the others the settings and the number of partitions of
    schemas/topics.yaml; Kafka cannot reduce a number.

    Raises ProvisioningError with the broker's reason.
    """
    wanted = list(topics)
    with AdminClient({"bootstrap.servers": bootstrap}, logger=KAFKA_LOGGER) as admin:
        _create_missing(admin, wanted)
        existing = _await_created(admin, {topic.name for topic in wanted})
        if settings := [_resource(topic, lacking) for topic, lacking in _other_settings(admin, wanted, existing)]:
            _await(admin.incremental_alter_configs(settings))
        if partitions := [NewPartitions(topic.name, topic.partitions) for topic in _too_small(wanted, existing)]:
            _await(admin.create_partitions(partitions))


def changed_topics(bootstrap: str, wanted: Sequence[Topic]) -> list[str]:
    """Return a line of text for each topic that is missing, has other settings, or too few partitions."""
    with AdminClient({"bootstrap.servers": bootstrap}, logger=KAFKA_LOGGER) as admin:
        existing = _existing(admin)
        return [
            *[f"create the topic {topic.name}" for topic in wanted if topic.name not in existing],
            *[
                f"set {name}={value} of the topic {topic.name}"
                for topic, settings in _other_settings(admin, wanted, existing)
                for name, value in settings.items()
            ],
            *[f"give the topic {topic.name} {topic.partitions} partitions" for topic in _too_small(wanted, existing)],
        ]


def _existing(admin: AdminClient) -> dict[str, int]:
    """Return the number of partitions of each topic that exists."""
    return {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=TIMEOUT_S).topics.items()}


def _await_created(admin: AdminClient, names: set[str]) -> dict[str, int]:
    """Return the number of partitions of each topic that exists, once all of these do.

    The controller answers before the broker knows the topic and its leaders, and until then a producer is refused.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while missing := names - _served(admin):
        if time.monotonic() > deadline:
            raise ProvisioningError(f"topics that the broker does not serve: {', '.join(sorted(missing))}")
        time.sleep(0.05)
    return _existing(admin)


def _served(admin: AdminClient) -> set[str]:
    """Return the topics of which every partition has a leader."""
    return {
        name
        for name, topic in admin.list_topics(timeout=TIMEOUT_S).topics.items()
        if topic.error is None and all(partition.leader >= 0 for partition in topic.partitions.values())
    }


def _too_small(wanted: Iterable[Topic], existing: Mapping[str, int]) -> list[Topic]:
    return [topic for topic in wanted if topic.name in existing and existing[topic.name] < topic.partitions]


def _other_settings(
    admin: AdminClient, wanted: Iterable[Topic], existing: Collection[str]
) -> list[tuple[Topic, dict[str, str]]]:
    """Return the topics with other settings than wanted, each with the settings that it lacks."""
    topics = {topic.name: topic for topic in wanted if topic.name in existing}
    found = _await(admin.describe_configs([_resource(topic, {}) for topic in topics.values()])) if topics else {}
    return [
        (topics[resource.name], lacking)
        for resource, entries in found.items()
        if (lacking := {k: v for k, v in topics[resource.name].config.items() if entries[k].value != v})
    ]


def _resource(topic: Topic, set_to: Mapping[str, str]) -> ConfigResource:
    changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in set_to.items()]
    return ConfigResource(ConfigResource.Type.TOPIC, topic.name, incremental_configs=changes)


def _await[Key, Answer](futures: Mapping[Key, Future[Answer]]) -> dict[Key, Answer]:
    """Return the answers of the broker. Raises ProvisioningError with its reason."""
    try:
        return {key: future.result(TIMEOUT_S) for key, future in futures.items()}
    except KafkaException as error:
        raise ProvisioningError(f"topics: {error}") from error


def _create_missing(admin: AdminClient, wanted: Sequence[Topic]) -> None:
    existing = _existing(admin)
    missing = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=topic.config,
        )
        for topic in wanted
        if topic.name not in existing
    ]
    if not missing:
        return
    for name, future in admin.create_topics(missing, operation_timeout=TIMEOUT_S).items():
        try:
            future.result(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ProvisioningError(f"topic {name}: {error}") from error


# --- the provider -----------------------------------------------------------------------------------------------------


# The variables with the ARNs of the SNS platform applications, by platform.
_APPLICATIONS = {"GCM": "PLATFORM_APPLICATION_ARN_GCM", "APNS": "PLATFORM_APPLICATION_ARN_APNS"}


class LocalProvider:
    """SNS, KMS and DynamoDB of LocalStack, which loses its state when it ends.

    If the directory still has endpoints of an earlier run, they are deleted and the consumer group of device_registrar
    is reset, so that it registers the devices again.
    """

    def __init__(self, config: StackConfig) -> None:
        self._config = config
        self._is_new = False

    def provision(self) -> None:
        """Create the SNS platform applications, the KMS key of the credentials of webhook endpoints, and the tables of
        schemas/dynamodb.
        """
        aws_url = self._config.aws_url
        environment = function_environment(self._config)
        sns = local_client(aws_url, "sns")
        if not sns.list_platform_applications()["PlatformApplications"]:
            self._is_new = True
        for platform, variable in _APPLICATIONS.items():
            arn = environment[variable]
            made = sns.create_platform_application(
                Name=arn.rpartition("/")[2],
                Platform=platform,
                Attributes={"PlatformCredential": "local", "PlatformPrincipal": "local"},
            )
            if made["PlatformApplicationArn"] != arn:
                raise ProvisioningError(f"platform application {arn} was made as {made['PlatformApplicationArn']}")
        create_webhook_secrets_key(local_client(aws_url, "kms"))
        if BUCKET_SETTING in environment:
            local_client(aws_url, "s3").create_bucket(Bucket=environment[BUCKET_SETTING])
        create_dynamodb_tables(local_client(aws_url, "dynamodb"))

    def lost_endpoints(self) -> list[str]:
        """Return a line of text if LocalStack was empty."""
        return ["forget the endpoints of an earlier run"] if self._is_new else []

    def forget_lost_endpoints(self) -> None:
        """Forget the endpoints of an earlier run, if LocalStack was empty."""
        if self._is_new:
            forget_endpoints(self._config.opensearch_url, self._config.kafka_bootstrap)
            self._is_new = False


def missing_in_aws(config: StackConfig) -> list[str]:
    """Return a line of text for each SNS platform application, KMS key, DynamoDB table and index that is missing."""
    environment = function_environment(config)
    sns = local_client(config.aws_url, "sns")
    known = {each["PlatformApplicationArn"] for each in sns.list_platform_applications()["PlatformApplications"]}
    wanted = [environment[variable] for variable in _APPLICATIONS.values()]
    found = [f"create the platform application {arn}" for arn in wanted if arn not in known]
    if not _has_webhook_secrets_key(local_client(config.aws_url, "kms")):
        found.append(f"create the KMS key {WEBHOOK_KMS_KEY}")
    if BUCKET_SETTING in environment:
        buckets = [each["Name"] for each in local_client(config.aws_url, "s3").list_buckets()["Buckets"]]
        if environment[BUCKET_SETTING] not in buckets:
            found.append(f"create the bucket {environment[BUCKET_SETTING]}")
    return found + missing_dynamodb_tables(local_client(config.aws_url, "dynamodb"))


def create_webhook_secrets_key(kms: Any) -> None:
    """Create the KMS key of the credentials of webhook endpoints, unless it exists."""
    if not _has_webhook_secrets_key(kms):
        key = kms.create_key(Description="credentials of webhook endpoints")["KeyMetadata"]["KeyId"]
        kms.create_alias(AliasName=WEBHOOK_KMS_KEY, TargetKeyId=key)


def _has_webhook_secrets_key(kms: Any) -> bool:
    pages = kms.get_paginator("list_aliases").paginate()
    return any(alias["AliasName"] == WEBHOOK_KMS_KEY for page in pages for alias in page["Aliases"])


# As infra/cdk/resources/door.py has it.
_QUEUE = {"MessageRetentionPeriod": str(14 * 86_400), "MaximumMessageSize": str(MAX_MESSAGE_BYTES)}


def create_queues(aws_url: str) -> None:
    """Create the SQS queues of functions.yaml that do not exist."""
    for name in _queues():
        local_client(aws_url, "sqs").create_queue(QueueName=name, Attributes=_QUEUE)


def missing_queues(aws_url: str) -> list[str]:
    """Return a line of text for each queue that is missing."""
    urls = local_client(aws_url, "sqs").list_queues().get("QueueUrls", [])
    return [f"create the queue {name}" for name in _queues() if name not in {url.rpartition("/")[2] for url in urls}]


def _queues() -> list[str]:
    return [entry.queue.name for entry in read_catalogue(generation=GENERATION) if entry.queue is not None]


def missing_dynamodb_tables(dynamodb: DynamoDBClient) -> list[str]:
    """Return a line of text for each table of schemas/dynamodb, and each of its indices, that is missing."""
    existing = {name for page in dynamodb.get_paginator("list_tables").paginate() for name in page["TableNames"]}
    found = []
    for definition in _dynamodb_definitions():
        name = definition["table"]["TableName"]
        if name not in existing:
            found.append(f"create the table {name}")
            continue
        found += [f"add the index {each['IndexName']} to {name}" for each in _missing_indices(dynamodb, definition)]
    return found


def create_dynamodb_tables(dynamodb: DynamoDBClient) -> None:
    """Create the DynamoDB tables that do not exist, with the attribute that determines when their items expire, and add
    missing indices to the others.
    """
    for definition in _dynamodb_definitions():
        name = definition["table"]["TableName"]
        with suppress(dynamodb.exceptions.ResourceInUseException):
            dynamodb.create_table(**definition["table"])
            dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        for index in _missing_indices(dynamodb, definition):
            dynamodb.update_table(
                TableName=name,
                AttributeDefinitions=definition["table"]["AttributeDefinitions"],
                GlobalSecondaryIndexUpdates=[{"Create": index}],
            )
            _await_indices(dynamodb, name)
        if dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED":
            dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=definition["time_to_live"])


def _dynamodb_definitions() -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted((SCHEMAS / "dynamodb").glob("*.json"))]


def _missing_indices(dynamodb: DynamoDBClient, definition: Any) -> list[Any]:
    table = definition["table"]
    known = dynamodb.describe_table(TableName=table["TableName"])["Table"].get("GlobalSecondaryIndexes", [])
    names = {each["IndexName"] for each in known}
    return [each for each in table.get("GlobalSecondaryIndexes", ()) if each["IndexName"] not in names]


def _await_indices(dynamodb: DynamoDBClient, table: str) -> None:
    """Wait until all indices of a table are filled. boto3 has no waiter for it."""
    pause = threading.Event()
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        known = dynamodb.describe_table(TableName=table)["Table"].get("GlobalSecondaryIndexes", [])
        if all(each["IndexStatus"] == "ACTIVE" for each in known):
            return
        pause.wait(0.1)
    raise ProvisioningError(f"table {table}: an index is not active after {TIMEOUT_S} s")


def forget_endpoints(opensearch_url: str, bootstrap: str) -> None:
    """Delete the documents of device_state and the consumer group of device_registrar, which then reads the devices
    from the beginning again.
    """
    with httpx.Client(base_url=opensearch_url, timeout=TIMEOUT_S) as client:
        answer = client.delete("/device_state")
        if answer.is_error and answer.status_code != httpx.codes.NOT_FOUND:
            raise ProvisioningError(f"device_state: {answer.status_code} {answer.text}")
    create_indices(opensearch_url, GENERATION)
    with AdminClient({"bootstrap.servers": bootstrap}, logger=KAFKA_LOGGER) as admin:
        delete_group(admin, "masscomm.device_registrar")


_GROUP_NOT_YET = {
    # Kafka returns NON_EMPTY_GROUP until the sessions of the group's members have timed out.
    KafkaError.NON_EMPTY_GROUP,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


def delete_group(admin: AdminClient, group: str) -> None:
    """Delete a consumer group, if it exists.

    The function waits while a broker that has just started loads its groups, and while the group has members that did
    not leave before the broker stopped.

    Raises:
        ProvisioningError: The broker refuses, or the wait takes longer than TIMEOUT_S.
    """
    pause = threading.Event()
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            admin.delete_consumer_groups([group], request_timeout=TIMEOUT_S)[group].result()
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.GROUP_ID_NOT_FOUND:
                return
            if code not in _GROUP_NOT_YET or time.monotonic() > deadline:
                raise ProvisioningError(f"group {group}: {error}") from error
            pause.wait(0.2)
        else:
            return


# --- change data capture ----------------------------------------------------------------------------------------------


def connector_config(generation: str, database_url: str) -> dict[str, str]:
    """Return Debezium's configuration for one snapshot generation of the monolith's database, with a single broker."""
    database = urlsplit(database_url)
    return debezium_config(generation) | {
        "database.hostname": str(database.hostname),
        "database.port": str(database.port or 5432),
        "database.user": unquote(str(database.username)),
        "database.password": unquote(str(database.password or "")),
        "database.dbname": database.path.lstrip("/"),
        "topic.creation.default.replication.factor": "1",
    }


def changed_connector(connect_url: str, generation: str, database_url: str) -> list[str]:
    """Return a line of text if the connector is missing or has another configuration."""
    name = connector_name(generation)
    with httpx.Client(base_url=connect_url, timeout=TIMEOUT_S) as client:
        answer = client.get(f"/connectors/{name}/config")
    if answer.status_code == httpx.codes.NOT_FOUND:
        return [f"create the connector {name}"]
    if answer.is_error:
        raise ProvisioningError(f"connector {name}: {answer.status_code} {answer.text}")
    # Kafka Connect adds the name to the configuration.
    known, wanted = answer.json(), connector_config(generation, database_url) | {"name": name}
    differing = sorted(key for key in known.keys() | wanted.keys() if known.get(key) != wanted.get(key))
    return [f"configure the connector {name}: {', '.join(differing)}"] if differing else []


def put_connector(
    connect_url: str, generation: str, database_url: str, settings: Mapping[str, str] | None = None
) -> None:
    """Create the connector or change its configuration; wait until it and its task run.

    Args:
        settings: Settings that replace those of the installation, for measurements.

    Raises:
        ProvisioningError: The database lacks something that change data capture needs, or Kafka Connect refuses.
    """
    require_source(database_url, generation)
    name = connector_name(generation)
    retries = httpx.HTTPTransport(retries=3)
    with httpx.Client(base_url=connect_url, timeout=TIMEOUT_S, transport=retries) as client:
        config = {**connector_config(generation, database_url), **(settings or {})}
        answer = client.put(f"/connectors/{name}/config", json=config)
        if answer.is_error:
            raise ProvisioningError(f"connector {name}: {answer.status_code} {answer.text}")
    await_connector(connect_url, name)


def await_connector(connect_url: str, name: str, timeout_s: float = 60) -> None:
    """Wait until the connector and its only task run. Raises ProvisioningError with the task's stack trace if it
    failed.
    """
    pause = threading.Event()
    deadline = time.monotonic() + timeout_s
    state = ""
    while time.monotonic() < deadline:
        state, trace = connector_state(connect_url, name)
        if state == "RUNNING":
            return
        if state == "FAILED":
            raise ProvisioningError(f"connector {name}: {trace}")
        pause.wait(0.1)  # Kafka Connect sends no notification when the connector runs, so its status is polled.
    raise ProvisioningError(f"connector {name} does not run after {timeout_s:.0f} s: {state}")


def connector_state(connect_url: str, name: str) -> tuple[str, str]:
    """Return the state of a connector, which is RUNNING only if its task runs, too, and the stack trace of a task that
    failed. Raises httpx.HTTPError if Kafka Connect does not answer.
    """
    with httpx.Client(base_url=connect_url, timeout=TIMEOUT_S) as client:
        answer = client.get(f"/connectors/{name}/status")
    if answer.status_code != httpx.codes.OK:
        return "UNKNOWN", ""
    status = answer.json()
    task = next(iter(status["tasks"]), {"state": "UNASSIGNED"})
    state = status["connector"]["state"]
    return str(task["state"] if state == "RUNNING" or task["state"] == "FAILED" else state), str(task.get("trace", ""))
