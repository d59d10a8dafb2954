"""The whole stack with proxies between the functions and their servers, and the fast SNS stand-in.

It has the services of `make run`, but other addresses in the functions' environment, a second listener on the broker
that advertises its proxy's address, and shorter delays. The judging side (the monolith, the tests, Spark's own reader
of Kafka) uses the servers directly.
"""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3
import yaml

from local.devstack.config import GENERATION, ROOT, StackConfig
from local.devstack.provision import provisioning
from local.devstack.service import (
    AWS_CREDENTIALS,
    DISCARDED_BATCHES_BUCKET,
    Service,
    Task,
    function_environment,
    local_client,
)
from local.devstack.services import all_services
from local.devstack.sns_process import SnsStandIn
from local.devstack.stack import Stack
from local.emulators.local import LOOPBACK, REGION
from masscomm.directory.chosen import STATE
from tests.support.fault_stack.cell import Deployment
from tests.support.fault_stack.proxy import HttpProxy, KafkaProxy, Loop, TcpProxy

# Short delays of mappings and scheduler; with those of production every cell would take minutes.
LAST_BACKOFF_S = 1.0
SCHEDULE_S = 1.0
QUEUE_VISIBILITY_S = 2
FIRST_BACK_OFF_S = 2
OUTAGE_TIMEOUT_S = 5
# The number of concurrent provider calls. It is smaller than a group of recipients, so that some calls have not begun
# when a fault begins.
WORKERS = 16
RECEIPT_WAITS_S = (1, 1, 5)
QUIET_AFTER_S = 1
DENIED_RETRY_S = 2

type Changes = Mapping[str, Mapping[str, Any]]


class FaultStack:
    """The stack and its proxies, from the beginning to the end of a block.

    Attributes:
        stack: The stack as `masscomm up` starts it; its config has the servers' own addresses.
        kafka, registry, opensearch, dynamodb, mail, queue, metrics: the proxies that the functions call (mail: SES,
            queue: SQS).
        sns: The SNS stand-in that the functions publish to.
        code: The source tree of the functions and the job.
        generation: The snapshot generations that the functions read, in the form of CDC_GENERATION.
    """

    # The directory's state is fed all the time, as in an installation that can change its directory.
    FED = STATE

    def __init__(
        self,
        folder: Path,
        *,
        code: Path = ROOT,
        tasks: Callable[[StackConfig], list[Task]] = provisioning,
    ) -> None:
        self.config = StackConfig.on_free_ports(folder)
        self._changes: Changes = {}
        self._deployment = Deployment()
        # Further variables of the functions, such as the name of a restored table.
        self.variables: dict[str, str] = {}
        self.code = code
        self.generation = GENERATION
        self._tasks = tasks
        self._job_text = _text_of(code / "spark_metrics")
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            self.loop = loop = resources.enter_context(Loop())
            ports = self.config.ports
            self.broker_port = StackConfig.on_free_ports(self.config.state_dir).ports.kafka
            self.kafka = KafkaProxy(loop, self.broker_port)
            self.registry = HttpProxy(loop, ports.registry)
            self.opensearch = HttpProxy(loop, ports.opensearch)
            self.dynamodb = HttpProxy(loop, ports.dynamodb)
            self.mail = HttpProxy(loop, ports.sms)
            self.queue = HttpProxy(loop, ports.localstack)
            self.metrics = TcpProxy(loop, ports.postgres)
            log = self.config.log("sns")
            log.parent.mkdir(parents=True, exist_ok=True)
            self.sns = resources.enter_context(SnsStandIn.start(log=log, any_endpoint=True))
            self._create_applications()
            self.stack = resources.enter_context(
                Stack(self.config, catalogue=self._services, tasks=self._tasks, discard=True)
            )
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    @property
    def environment(self) -> dict[str, str]:
        own = self.config.ports
        through = {
            own.kafka: self.kafka,
            own.registry: self.registry,
            own.opensearch: self.opensearch,
            own.dynamodb: self.dynamodb,
            own.postgres: self.metrics,
        }
        environment = function_environment(
            dataclasses.replace(self.config, pollers=self._deployment.pollers, directory=self._deployment.directory)
        )
        for port, proxy in through.items():
            environment = {
                name: value.replace(f"{LOOPBACK}:{port}", f"{LOOPBACK}:{proxy.port}")
                for name, value in environment.items()
            }
        return {
            **environment,
            "AWS_ENDPOINT_URL_SNS": self.sns.url,
            # Version 0.1.0 sends e-mails by version 1 of the API.
            "AWS_ENDPOINT_URL_SES": f"http://{LOOPBACK}:{self.mail.port}",
            "AWS_ENDPOINT_URL_SESV2": f"http://{LOOPBACK}:{self.mail.port}",
            "AWS_ENDPOINT_URL_SQS": f"http://{LOOPBACK}:{self.queue.port}",
            "BACK_OFF_FIRST_S": str(FIRST_BACK_OFF_S),
            "DELIVERY_PATIENCE_S": str(OUTAGE_TIMEOUT_S),
            "DELIVERY_WORKERS": str(WORKERS),
            "QUIET_HOURS_AGAIN_AFTER_S": str(QUIET_AFTER_S),
            "RECEIPT_WAITS_S": ",".join(map(str, RECEIPT_WAITS_S)),
            "DENIED_SCHEMA_RETRY_S": str(DENIED_RETRY_S),
            "CDC_GENERATION": self.generation,
            "LOG_LEVEL": "WARNING",
            **self.variables,
        }

    def reconfigure(self, changes: Changes, *, generation: str | None = None) -> None:
        """Restart the function host with these changes to functions.yaml: {function: {field: value}}.

        generation: the snapshot generations to read from now on, if they change; the directory's state restarts, too.
        """
        self._changes = changes
        if generation is not None and (state := self.stack.known.get("directory_state")) is not None:
            environment = {**state.environment, "CDC_GENERATION": generation}
            self.stack.known["directory_state"] = dataclasses.replace(state, environment=environment)
            self.stack.restart("directory_state")
        self.generation = generation or self.generation
        self.stack.known["lambda_host"] = self._host(self.stack.known["lambda_host"])
        self.stack.restart("lambda_host")

    @contextmanager
    def configured(self, changes: Changes) -> Iterator[None]:
        """Apply these changes to functions.yaml until the block ends."""
        self.reconfigure(changes)
        try:
            yield
        finally:
            self.reconfigure({})

    def deploy(self, deployment: Deployment) -> None:
        """Restart the function host with this deployment, unless it has it."""
        if deployment != self._deployment:
            local_client(self.config.aws_url, "s3").create_bucket(Bucket=DISCARDED_BATCHES_BUCKET)
            self._deployment = deployment
            self.reconfigure(self._changes)

    def use(self, code: Path) -> None:
        """Restart the function host with another source tree, and the Spark job if its code differs or it has ended."""
        self.code = code
        self.reconfigure(self._changes)
        job = _text_of(code / "spark_metrics")
        if job != self._job_text or "spark" not in self.stack.urls:
            self._job_text = job
            self.stack.known["spark"] = self._job(all_services(self.config)["spark"])
            self.stack.restart("spark")

    def _create_applications(self) -> None:
        client = boto3.client(
            "sns",
            endpoint_url=self.sns.url,
            region_name=REGION,
            aws_access_key_id=AWS_CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=AWS_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        environment = function_environment(self.config)
        for platform in ("GCM", "APNS"):
            name = environment[f"PLATFORM_APPLICATION_ARN_{platform}"].rpartition("/")[2]
            client.create_platform_application(Name=name, Platform=platform, Attributes={})

    def _services(self, config: StackConfig) -> dict[str, Service]:
        services = all_services(dataclasses.replace(config, directory=self.FED))
        services["kafka"] = self._broker(services["kafka"])
        services["spark"] = self._job(services["spark"])
        services["lambda_host"] = self._host(services["lambda_host"])
        return services

    def _job(self, service: Service) -> Service:
        environment = {
            **service.environment,
            "METRICS_DATABASE_URL": self.environment["METRICS_DATABASE_URL"],
            "SPARK_DENIED_SCHEMA_RETRY_S": str(DENIED_RETRY_S),
            # Each append takes a second of processor time.
            "SPARK_ARCHIVE_TRIGGER_MS": "30000",
        }
        if self.code == ROOT:
            return dataclasses.replace(service, environment=environment)
        start = (
            "import runpy, sys; sys.path[0] = sys.argv[1]; runpy.run_module('spark_metrics.job', run_name='__main__')"
        )
        command = [sys.executable, "-c", start, str(self.code)]
        # The executors' processes import the code by these variables, and not from their working directory.
        environment |= {"PYTHONPATH": str(self.code), "PYTHONSAFEPATH": "1"}
        return dataclasses.replace(service, command=command, environment=environment)

    def _broker(self, service: Service) -> Service:
        """Add a second listener for the functions, which advertises the proxy's address."""
        own = f"PLAINTEXT://{self.config.kafka_bootstrap}"
        files = {
            path: text.replace(f"listeners={own},", f"listeners={own},PROXIED://{LOOPBACK}:{self.broker_port},")
            .replace(
                f"advertised.listeners={own}", f"advertised.listeners={own},PROXIED://{LOOPBACK}:{self.kafka.port}"
            )
            .replace("protocol.map=PLAINTEXT:PLAINTEXT", "protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT")
            for path, text in service.files.items()
        }
        return dataclasses.replace(service, files=files)

    def _host(self, service: Service) -> Service:
        [config] = [path for path in service.files if path.name == "config.json"]
        functions = config.with_name("functions.yaml")
        document = yaml.safe_load((self.code / "functions" / "functions.yaml").read_text())
        for name, fields in self._changes.items():
            for key, value in fields.items():
                entry = document["functions"][name]
                entry[key] = {**entry.get(key, {}), **value} if isinstance(value, Mapping) else value
        content = json.loads(service.files[config]) | {
            "functions_file": str(functions),
            "task_root": str(self.code),
            "generation": self.generation,
            "pollers": self._deployment.pollers,
            "environments": self._deployment.environments,
            "environment": self.environment,
            "mappings": {"last_backoff_s": LAST_BACKOFF_S},
            "schedule_s": SCHEDULE_S,
            "queue_visibility_s": QUEUE_VISIBILITY_S,
        }
        files = {functions: yaml.safe_dump(document), config: json.dumps(content, indent=2)}
        return dataclasses.replace(service, files=files)


def _text_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*.py")}
