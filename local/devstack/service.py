"""The specification of a local server. Each module in `local.devstack.services` returns one."""

import http.client
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from local.devstack.config import ROOT, SMS_FILE, ConfigError, StackConfig
from local.devstack.setup import CLASSES, JARS, WORK, SetupError, digest, find_jdk
from local.emulators.event_source import Pollers
from local.emulators.local import LOOPBACK, REGION
from masscomm.directory.chosen import OPENSEARCH
from masscomm.domain.sms_settings import SMS_VARIABLE
from masscomm.domain.source_tables import SOURCE_VARIABLE
from masscomm.stores.discarded_batches.s3 import BUCKET_SETTING
from ops.provisioning.steps import Step

RunOnce = Callable[[list[str]], None]


def nothing(_: RunOnce) -> None:
    """Do nothing: the server needs no preparation."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """One server process, and how to start, check and stop it."""

    name: str  # The name in logs, in `masscomm status` and in `depends_on`.
    command: list[str]  # The command line of the process.
    # Returns whether the service is ready. It is called repeatedly until it returns True, and may raise OSError until
    # then.
    ready: Callable[[], bool]
    address: str  # The address of the service as it is shown to users.
    # The fields of `Ports` on which the service listens; these ports must be free before any service starts.
    ports: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()  # The services and provisioning tasks that must be ready first.
    # Services that must not end before this one, although its start does not depend on them.
    outlived_by: tuple[str, ...] = ()
    # Environment variables in addition to those of the stack.
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)  # Files that are written before the service starts.
    class_archive: Path | None = None  # The class archive of a JVM (see `class_archive`).
    # Prepares the first start (format, initdb). Its argument runs a command in the same way as the service will run.
    prepare: Callable[[RunOnce], None] = nothing
    # Completes the start once the service is ready, for example by creating a database.
    after_ready: Callable[[], None] = lambda: None
    # The files and folders that the process must own, if the service refuses to run as root.
    drop_root: tuple[Path, ...] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    # A service that ends is reported at once. On a busy machine with two processors, Spark was ready after 90 s.
    start_timeout_s: float = 240
    stop_timeout_s: float = 15


@dataclass(frozen=True, kw_only=True)
class Task(Step):
    """A provisioning step that runs once per start, after its dependencies, such as creating topics."""

    depends_on: tuple[str, ...] = ()

    def after(self, *names: str) -> Self:
        """Return this task with its dependencies."""
        return replace(self, depends_on=names)


@cache
def java_home() -> str:
    """Return the home folder of the stack's JDK. Raises ConfigError if it is missing or has another major version."""
    try:
        return find_jdk()
    except SetupError as error:
        raise ConfigError(str(error)) from error


def jars(module: str) -> str:
    """Return the class path of a module of local/devstack/jars."""
    return f"{JARS}/{module}/*"


def java(*options: str, heap_mb: int) -> list[str]:
    """Return the command line of a JVM up to its main class: with little memory, the serial collector, and IPv4
    only.
    """
    return [
        f"{java_home()}/bin/java",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        # With only the first tier of compilation, a start takes half the processor time when all services start at the
        # same time.
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        "-Xshare:auto",
        "-Djava.net.preferIPv4Stack=true",
        "-Djava.awt.headless=true",
        *os.environ.get("MASSCOMM_JVM_OPTIONS", "").split(),
        *options,
    ]


def class_archive(name: str) -> Path:
    """Return the path of the archive of a JVM's loaded classes, with which a start takes a third of the time.

    Each set of jars and JDK has a separate archive. The JVM writes it when the service first ends normally (class data
    sharing, JEP 350). The file is replaced only as a whole.
    """
    key = digest(f"{JARS}/.stamp", f"{CLASSES}/.stamp", f"{java_home()}/release")[:16]
    return Path(WORK, "class-archives", f"{name}-{key}.jsa")


LOG4J = """\
# Standard output only: the stack keeps it, one file a service.
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{{ISO8601}} %-5p [%c{{1}}] %m%n
rootLogger.level = {level}
rootLogger.appenderRef.out.ref = out
"""


def log4j(level: str = "warn", **loggers: str) -> str:
    """Return a log4j2 configuration that writes to standard output. `loggers` maps logger names (with _ for .) to
    levels.
    """
    lines = [LOG4J.format(level=level)]
    for name, logger_level in loggers.items():
        lines.append(f"logger.{name}.name = {name.replace('_', '.')}\nlogger.{name}.level = {logger_level}\n")
    return "".join(lines)


def base_environment() -> dict[str, str]:
    """Return the environment of every process of the stack: this process's environment without the variables that
    would change the behaviour of services.

    AWS credentials and profiles of the caller are replaced, so that no process of the stack can reach a real account.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    for unwanted in ("PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "JAVA_TOOL_OPTIONS", "CLASSPATH"):
        kept.pop(unwanted, None)
    if kept.get(SOURCE_VARIABLE):
        # A relative path is relative to the folder of the command, which is not that of the services.
        kept[SOURCE_VARIABLE] = str(Path(kept[SOURCE_VARIABLE]).expanduser().resolve())
    return {
        **kept,
        "JAVA_HOME": java_home(),
        "PATH": f"{java_home()}/bin:{kept.get('PATH', os.defpath)}",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(ROOT),
        # By default, glibc reserves several memory arenas for each core and thread: most of a small JVM's memory
        # outside its heap.
        "MALLOC_ARENA_MAX": "2",
        "no_proxy": f"{LOOPBACK},localhost",
        "NO_PROXY": f"{LOOPBACK},localhost",
        **AWS_CREDENTIALS,
    }


AWS_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}


def local_client(url: str, service: str, **options: Any) -> Any:
    """Return boto3's client of a service of LocalStack. `options` are those of boto3.client."""
    import boto3

    session: Any = boto3.Session(
        aws_access_key_id=AWS_CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=AWS_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region_name=REGION,
    )
    return session.client(service, endpoint_url=url, **options)


def listens(port: int) -> bool:
    """Return whether a server accepts connections on a port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def http_get(url: str, *, timeout_s: float = 2) -> tuple[int, bytes]:
    """Return the status and the body of a URL. Raises OSError (in place of http.client.HTTPException) while no
    server responds.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def answers(url: str) -> Callable[[], bool]:
    """Return a readiness probe that checks whether the address responds with 200."""
    return lambda: http_get(url)[0] == 200


def json_at(url: str) -> Any:
    """Return the JSON at a URL. Raises OSError until the response is 200 with JSON."""
    status, body = http_get(url)
    if status != 200:
        raise OSError(f"{url} answered {status}")
    try:
        return json.loads(body)
    except ValueError as error:
        raise OSError(f"{url} answered no JSON") from error


# The alias of the KMS key of the credentials of webhook endpoints.
WEBHOOK_KMS_KEY = "alias/masscomm-webhook-secrets"
# The bucket of the batches that mappings in on-demand mode discard.
DISCARDED_BATCHES_BUCKET = "masscomm-discarded-batches"


def function_environment(config: StackConfig) -> dict[str, str]:
    """Return the environment of the functions and of the Spark job: addresses, names, dummy credentials."""
    application = f"arn:aws:sns:{REGION}:000000000000:app"
    return {
        "KAFKA_BOOTSTRAP_SERVERS": config.kafka_bootstrap,
        "SCHEMA_REGISTRY_URL": config.registry_url,
        "OPENSEARCH_URL": config.opensearch_url,
        "AWS_ENDPOINT_URL": config.aws_url,
        # The functions use DynamoDBLocal directly, because LocalStack's gateway takes twice as long as the database
        # behind it.
        "AWS_ENDPOINT_URL_DYNAMODB": config.dynamodb_url,
        # LocalStack has no SMS, and not version 2 of SES.
        "AWS_ENDPOINT_URL_SESV2": config.sms_url,
        "AWS_ENDPOINT_URL_PINPOINT_SMS_VOICE_V2": config.sms_url,
        SMS_VARIABLE: str(SMS_FILE),
        **AWS_CREDENTIALS,
        "METRICS_DATABASE_URL": config.database_url("metrics"),
        "PLATFORM_APPLICATION_ARN_GCM": f"{application}/GCM/masscomm-gcm",
        "PLATFORM_APPLICATION_ARN_APNS": f"{application}/APNS/masscomm-apns",
        "SES_SENDER": "notifications@masscomm.example",
        "UNSUBSCRIBE_URL": f"{config.gateway_url}/v1/unsubscribe",
        "UNSUBSCRIBE_KEYS": config.unsubscribe_keys,
        "WEBHOOK_KEYS": config.webhook_keys,
        "WEBHOOK_LOOPBACK": "1",
        "WEBHOOK_KMS_KEY": WEBHOOK_KMS_KEY,
        "DOOR_URL": config.gateway_url,
        "CDC_GENERATION": "g1",
        "CDC_CONSUMER_GROUP": "masscomm.cdc_consumer",
        "LOG_LEVEL": os.environ.get("LOG_LEVEL", "INFO"),
        **({} if config.pollers is Pollers.PROVISIONED else {BUCKET_SETTING: DISCARDED_BATCHES_BUCKET}),
        **(
            {}
            if config.directory == OPENSEARCH
            else {
                "MASSCOMM_DIRECTORY": config.directory,
                "DIRECTORY_STATE_URL": config.directory_state_url,
                "DIRECTORY_STATE_TOKEN": config.directory_state_token,
            }
        ),
        **({} if config.source is None else {SOURCE_VARIABLE: str(config.source)}),
    }
