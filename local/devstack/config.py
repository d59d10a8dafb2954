"""Configuration of a local stack: its ports, its state folder and the addresses derived from them.

Environment: MASSCOMM_STATE (a folder, `.state` in the checkout by default) and MASSCOMM_PORT_<NAME>, one for each field
of `Ports`. `masscomm up --port name=number` overrides the environment. MASSCOMM_MONOLITH is the URL of a database of
one's own; without it, the stack has the tables of an example. MASSCOMM_SOURCE is the file that maps the monolith's
tables, in the place of schemas/source.yaml. MASSCOMM_EVENT_SOURCES is the file of the organisation's own topics;
without it, no job reads any. MASSCOMM_POLLERS is the mode of the event source mappings, provisioned (by default) or
on-demand. MASSCOMM_FUNCTION_ENVIRONMENTS is the number of environments of each function of the chain, for which each
topic then has an event source mapping of its own, as in AWS. MASSCOMM_DIRECTORY is where they look up users, settings,
devices and templates: opensearch (by default) or state.
"""

import json
import os
import random
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Self

from cli.errors import CommandError
from cli.folders import ROOT as ROOT
from cli.folders import state_folder
from local.emulators.event_source import Pollers
from local.emulators.local import LOOPBACK
from masscomm.directory.chosen import OPENSEARCH, STATE
from masscomm.domain.source_tables import SOURCE_VARIABLE, source_file
from masscomm.integers import integer
from ops.provisioning import GENERATION as GENERATION

EVENT_SOURCES_VARIABLE = "MASSCOMM_EVENT_SOURCES"
# The example monolith of the demo.
EXAMPLE = ROOT / "examples" / "monolith"
# The countries and senders of SMS.
SMS_FILE = EXAMPLE / "sms.yaml"


def example() -> Path:
    """Return the folder of the example monolith whose tables are mapped: examples/monolith, unless the file that maps
    them is that of another example.
    """
    mapping = source_file().read_bytes()
    others = (path.parent for path in sorted(ROOT.glob("examples/*/source.yaml")) if path.read_bytes() == mapping)
    return next(others, EXAMPLE)


class ConfigError(CommandError):
    """A port or an environment variable is invalid; the message names it and the permitted values."""


def connector_name(generation: str) -> str:
    """Return the name of the connector; each snapshot generation (one snapshot of the tables with the changes after
    it) has one.
    """
    return f"monolith-{generation}"


@dataclass(frozen=True)
class Ports:
    """The TCP ports of the services, all on the loopback address."""

    kafka: int = 9092
    kafka_controller: int = 9093
    registry: int = 8081
    connect: int = 8083
    postgres: int = 15432
    opensearch: int = 9200
    opensearch_transport: int = 9300
    localstack: int = 4566
    dynamodb: int = 4567
    sms: int = 4568
    gateway: int = 8080
    runtime_api: int = 9001
    directory_state: int = 9402

    @classmethod
    def chosen(cls, environment: Mapping[str, str], overrides: Mapping[str, int] | None = None) -> Self:
        """Return the ports: the defaults, overridden by MASSCOMM_PORT_<NAME>, then by `overrides`. Raises
        ConfigError for an invalid number or name.
        """
        names = [each.name for each in fields(cls)]
        ports: dict[str, int] = {}
        for name in names:
            variable = f"MASSCOMM_PORT_{name.upper()}"
            if variable in environment:
                text = environment[variable]
                try:
                    ports[name] = integer(text, 0)
                except ValueError as error:
                    raise ConfigError(f"{variable}={text} is not a port number.") from error
        for name, number in (overrides or {}).items():
            if name not in names:
                raise ConfigError(f"There is no port named {name}; the names are {', '.join(names)}.")
            ports[name] = number
        for name, number in ports.items():
            if not 1 <= number <= 65535:
                raise ConfigError(f"Port {number} for {name} is not between 1 and 65535.")
        made = cls(**ports)
        taken: dict[int, str] = {}
        for name, number in asdict(made).items():
            if number in taken:
                raise ConfigError(f"Port {number} is given to both {taken[number]} and {name}.")
            taken[number] = name
        return made


def is_free(port: int) -> bool:
    """Return whether a server could listen on `port` of the loopback address now."""
    with socket.socket() as probe:
        # Servers set SO_REUSEADDR, so a port counts as free while a closed connection lingers in TIME_WAIT.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
        return True


# The niceness of the bulk functions' processes. With this value, a one-time password during a broadcast takes at most
# twice its time on an idle machine (docs/internals/guarantees.md).
_BULK_NICE = 10


def _file(known: Mapping[str, str], variable: str, hint: str) -> Path | None:
    """Return the absolute path in a variable, if it is set. Raises ConfigError, with the hint, if there is no such
    file.
    """
    text = known.get(variable)
    if not text:
        return None
    path = Path(text).expanduser().resolve()
    if not path.is_file():
        raise ConfigError(f"{variable}={text} is not a file. {hint}")
    return path


def _pollers(known: Mapping[str, str]) -> Pollers:
    """Return the mode in MASSCOMM_POLLERS, by default provisioned mode. Raises ConfigError for another text."""
    text = known.get("MASSCOMM_POLLERS") or Pollers.PROVISIONED
    if text not in set(Pollers):
        raise ConfigError(f"MASSCOMM_POLLERS={text} is no mode of event pollers. Choose {' or '.join(Pollers)}.")
    return Pollers(text)


def _directory(known: Mapping[str, str]) -> str:
    """Return the directory in MASSCOMM_DIRECTORY, by default OpenSearch. Raises ConfigError for another text."""
    text = known.get("MASSCOMM_DIRECTORY") or OPENSEARCH
    if text not in (OPENSEARCH, STATE):
        raise ConfigError(f"MASSCOMM_DIRECTORY={text} is no directory. Choose {OPENSEARCH} or {STATE}.")
    return text


def _environments(known: Mapping[str, str]) -> int | None:
    """Return the number in MASSCOMM_FUNCTION_ENVIRONMENTS; None if it is not set. Raises ConfigError if it is none
    from 1 to 100.
    """
    text = known.get("MASSCOMM_FUNCTION_ENVIRONMENTS")
    if not text:
        return None
    try:
        return integer(text, 1, 100)
    except ValueError as error:
        raise ConfigError(f"MASSCOMM_FUNCTION_ENVIRONMENTS={text} is not a number from 1 to 100.") from error


@dataclass(frozen=True)
class StackConfig:
    """The ports and the state folder of one local stack."""

    state_dir: Path
    ports: Ports = field(default_factory=Ports)
    # The niceness of the bulk functions' processes (local.emulators.serverless). Use 0 if other stacks or tests share
    # the processors, because the bulk functions yield to those, too.
    bulk_nice: int = 0
    # The URL of the monolith's database, with a password; None: the stack's own. It is never stored (`as_dict`).
    monolith_url: str | None = field(default=None, repr=False)
    # The file that maps the monolith's tables; None: schemas/source.yaml.
    source: Path | None = None
    # The file of the organisation's own topics that become events; None: no job reads any.
    event_sources: Path | None = None
    # The mode of the event source mappings (local.emulators.event_source).
    pollers: Pollers = Pollers.PROVISIONED
    # The environments of each function of the chain, each topic with a mapping of its own (local.emulators.serverless).
    # None: one mapping a function, and the concurrency of functions.yaml, which need less memory.
    environments: int | None = None
    # Where the functions look up users, settings, devices and templates (masscomm.directory.chosen).
    directory: str = OPENSEARCH

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, ports: Mapping[str, int] | None = None
    ) -> Self:
        """Return the configuration from environment variables; `ports` overrides them. Raises ConfigError."""
        known = os.environ if environment is None else environment
        return cls(
            state_folder(known),
            Ports.chosen(known, ports),
            _BULK_NICE,
            known.get("MASSCOMM_MONOLITH") or None,
            _file(
                known,
                SOURCE_VARIABLE,
                "Name the file that maps your tables, or unset the variable. `masscomm source init` proposes a file.",
            ),
            _file(
                known, EVENT_SOURCES_VARIABLE, "Name a file such as examples/event_sources.yaml, or unset the variable."
            ),
            _pollers(known),
            _environments(known),
            _directory(known),
        )

    @classmethod
    def on_free_ports(cls, state_dir: Path) -> Self:
        """Return a configuration for a stack that runs concurrently with others: every port is free at the time of the
        call.

        The ports are random and below the range of outgoing connections (from 32768), which could otherwise occupy a
        port before the stack starts.
        """
        count = len(fields(Ports))
        candidates = random.SystemRandom().sample(range(20000, 32000), 200)
        free = [port for port in candidates if is_free(port)][:count]
        names = [each.name for each in fields(Ports)]
        return cls(state_dir.resolve(), replace(Ports(), **dict(zip(names, free, strict=True))))

    def as_dict(self) -> dict[str, object]:
        """Return the fields except the monolith's URL as plain JSON, for `from_dict`."""
        return {
            "state_dir": str(self.state_dir),
            "ports": asdict(self.ports),
            "bulk_nice": self.bulk_nice,
            "source": None if self.source is None else str(self.source),
            "event_sources": None if self.event_sources is None else str(self.event_sources),
            "pollers": self.pollers.value,
            "environments": self.environments,
            "directory": self.directory,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Return the configuration for a dictionary that `as_dict` returned."""
        ports = values["ports"]
        if not isinstance(ports, dict):
            raise ConfigError("ports must be a mapping of name to number")
        source, event_sources = (values.get(name) for name in ("source", "event_sources"))
        return cls(
            Path(str(values["state_dir"])),
            Ports(**ports),
            int(str(values.get("bulk_nice", 0))),
            source=None if source is None else Path(str(source)),
            event_sources=None if event_sources is None else Path(str(event_sources)),
            pollers=Pollers(str(values.get("pollers", Pollers.PROVISIONED))),
            environments=None if (number := values.get("environments")) is None else int(str(number)),
            directory=str(values.get("directory", OPENSEARCH)),
        )

    # --- folders ---

    def data(self, service: str) -> Path:
        return self.state_dir / "data" / service

    def config_dir(self, service: str) -> Path:
        """Return the folder of a service's generated configuration files."""
        return self.state_dir / "config" / service

    def log(self, service: str) -> Path:
        return self.state_dir / "logs" / f"{service}.log"

    @property
    def run_dir(self) -> Path:
        """Return the folder with the lock, the record of the running processes and the generated secrets."""
        return self.state_dir / "run"

    @property
    def archive_dir(self) -> Path:
        """Return the folder of the archive, in which every counted record is stored as Parquet."""
        return self.state_dir / "data" / "archive"

    # --- addresses ---

    @property
    def kafka_bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.ports.kafka}"

    @property
    def registry_url(self) -> str:
        """Return the URL of the schema registry's Confluent-compatible API."""
        return f"http://{LOOPBACK}:{self.ports.registry}/apis/ccompat/v7"

    @property
    def connect_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.connect}"

    @property
    def opensearch_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.opensearch}"

    @property
    def sms_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.sms}"

    @property
    def directory_state_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.directory_state}"

    @property
    def directory_state_token(self) -> str:
        """Return the token of the directory's state. It is generated and stored as the password is."""
        return self._secret(self.run_dir / "directory-state-token", prefix="state_")

    @property
    def aws_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.localstack}"

    @property
    def dynamodb_url(self) -> str:
        """Return the URL of DynamoDBLocal, which has the same tables as the DynamoDB API of LocalStack."""
        return f"http://{LOOPBACK}:{self.ports.dynamodb}"

    @property
    def gateway_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.gateway}"

    @property
    def password(self) -> str:
        """Return the database password. It is generated once per state folder and stored there, readable only by its
        owner.
        """
        return self._secret(self.run_dir / "postgres-password", prefix="")

    @property
    def api_key(self) -> str:
        """Return the development key of the REST API, which has every club and scope. It is generated and stored as
        the password is.
        """
        return self._secret(self.api_key_file, prefix="mc_")

    @property
    def unsubscribe_keys(self) -> str:
        """Return the keys that sign unsubscribe links, as JSON. The key is generated and stored as the password is."""
        key = self._secret(self.run_dir / "unsubscribe-key", prefix="unsubscribe_")
        return json.dumps({"current": "1", "1": key})

    @property
    def webhook_keys(self) -> str:
        """Return the keys of webhooks, as JSON. The key is generated and stored as the password is."""
        return json.dumps({"current": "1", "1": self._secret(self.run_dir / "webhook-key", prefix="webhook_")})

    @property
    def api_key_file(self) -> Path:
        return self.run_dir / "api-key"

    def _secret(self, path: Path, *, prefix: str) -> str:
        """Return the text in a file of the run folder; the first call writes a random one."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_text()
        secret = prefix + "".join(random.SystemRandom().choices("abcdefghijkmnpqrstuvwxyz23456789", k=24))
        with os.fdopen(descriptor, "w") as file:
            file.write(secret)
        return secret

    def database_url(self, database: str) -> str:
        """Return the libpq URL of one of the server's databases: `monolith` or `metrics`."""
        return f"postgresql://masscomm:{self.password}@{LOOPBACK}:{self.ports.postgres}/{database}"
