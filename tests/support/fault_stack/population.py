"""The users of the fault matrix: rows in the monolith's tables, which change data capture copies to the directory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import batched
from typing import Any, LiteralString

import psycopg

from examples.monolith.rows import TABLES, count, set_quiet_hours
from examples.monolith.seed import create_tables, seed
from functions.device_registrar.device_states import DeviceState, OpenSearchDeviceStates, StatesOfDevice
from local.devstack.config import GENERATION, StackConfig
from local.devstack.demo.directory import Directory
from local.devstack.demo.oracle import World
from local.devstack.service import function_environment
from local.emulators.sns_stand_in import endpoint_arn
from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect
from masscomm.directory.device_states import INDEX as STATES
from masscomm.directory.document_publisher import OpenSearchDocumentPublisher
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.directory.state import StateDirectory
from masscomm.errors import Retry
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.producer import KafkaProducer
from tests.support.servers.opensearch_client import TestClient
from tests.support.until import until

CLUB, OTHER_CLUB = CLUBS = 9, 13  # Both clubs have the same default broadcast queue.
FIRST_USER = 9_000_000_001
DEVICES_A_USER = 2  # The maximum number of devices of a user that grow() adds.

# The category that is sent on each channel. Every user has an address and permits newsletters.
CATEGORIES = {"push": "news", "email": "newsletter"}

# One user in ten each has opted out of push, has opted out of news, has no device, has two devices, or has no settings
# row (which counts only once change data capture has passed the send). All other users have one device and permit
# everything.
_INSERT = """
INSERT INTO users (id, club_id, first_name, last_name, email)
  SELECT id, %(club)s, 'Ada', 'Abel', 'user' || id || '@example.com' FROM generate_series(%(first)s, %(last)s) AS id;
INSERT INTO user_settings (user_id, club_id, channels, categories)
  SELECT id, %(club)s, CASE id %% 10 WHEN 1 THEN '{"push": false}'::jsonb ELSE '{}'::jsonb END,
         CASE id %% 10 WHEN 2 THEN '{"news": false}'::jsonb ELSE '{}'::jsonb END
  FROM generate_series(%(first)s, %(last)s) AS id WHERE id %% 10 <> 3;
INSERT INTO devices (id, user_id, platform, token)
  SELECT id * 10 + place, id, CASE place WHEN 0 THEN 'gcm' ELSE 'apns' END, 'token-' || id || '-' || place
  FROM generate_series(%(first)s, %(last)s) AS id, generate_series(0, 1) AS place
  WHERE id %% 10 <> 4 AND (place = 0 OR id %% 10 = 5);
"""

_INSERT_UNIFORM = """
INSERT INTO users (id, club_id, first_name, last_name)
  SELECT id, %(club)s, 'Ada', 'Abel' FROM generate_series(%(first)s, %(last)s) AS id;
INSERT INTO user_settings (user_id, club_id) SELECT id, %(club)s FROM generate_series(%(first)s, %(last)s) AS id;
INSERT INTO devices (id, user_id, platform, token)
  SELECT id * 10, id, 'gcm', 'token-' || id || '-0' FROM generate_series(%(first)s, %(last)s) AS id;
"""


def address(user_id: int) -> str:
    return f"user{user_id}@example.com"


def _token(user_id: int) -> str:
    return f"token-{user_id}-0"


@dataclass
class Population:
    """The users of the monolith's tables, with methods that change them.

    Attributes:
        world: All users, as read from the monolith's tables.
        endpoints: User → ARNs of the active devices.
        generation: The snapshot generation whose indices are compared with the tables.
    """

    config: StackConfig
    world: World = field(default_factory=lambda: World({}))
    endpoints: dict[int, list[str]] = field(default_factory=dict)
    generation: str = GENERATION
    _next: int = FIRST_USER
    _with_states: set[str] = field(default_factory=set)

    def differing_in(self, state: StateDirectory) -> str | None:
        """Describe why a directory has not the devices that OpenSearch has; None: it has them."""
        stored = OpenSearchDirectory(
            connect(self.config.opensearch_url),
            progress=lambda _: InMemoryCdcProgress(),
            clock=SystemClock(),
        )
        users = list(self.endpoints)
        try:
            wanted, found = stored.devices(users), state.devices(users)
        except Retry as reason:
            return str(reason)
        for user in users:
            if sorted(found[user]) != sorted(wanted[user]):
                return f"user {user} has the devices {found[user]} and not {wanted[user]}"
        return None

    def grow(self, users: int, club_id: int = CLUB) -> range:
        """Add users, and wait until the directory has them and their devices have endpoints. Return their ids."""
        added = self.insert(users, club_id)
        self.await_directory(added)
        return added

    def _next_ids(self, users: int) -> range:
        """Return ids that no user has. All first ones have one last digit, because it decides what a user is."""
        added = range(self._next, self._next + users)
        self._next += -(-users // 10) * 10
        return added

    def insert(self, users: int, club_id: int = CLUB) -> range:
        """Add users to the monolith without waiting for the directory. Return their ids."""
        added = self._next_ids(users)
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            self._insert(connection, _INSERT, added, club_id)
        self.refresh()
        return added

    def grow_uniform(self, users: int) -> range:
        """Add users with one device each and no restriction, and register their devices with the provider directly.

        The device registrar would need minutes for a hundred thousand devices; other tests test it.
        """
        added = self._next_ids(users)
        application = function_environment(self.config)["PLATFORM_APPLICATION_ARN_GCM"]
        endpoints = {user_id * 10: endpoint_arn(application, _token(user_id)) for user_id in added}
        self._write_states(endpoints, lambda number: _token(number // 10))
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            self._insert(connection, _INSERT_UNIFORM, added)
        self.refresh()
        self._await_rows()
        return added

    def add_devices(self, users: Sequence[int], place: int, *, refused: bool = False) -> None:
        """Add a device to each user, with the last digit `place` in its id; wait until the directory has the rows.

        With `refused` the device has no token, so that it never gets an endpoint.
        """
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            connection.execute(
                "INSERT INTO devices (id, user_id, platform, token) SELECT id * 10 + %s, id, 'gcm',"
                " CASE WHEN %s THEN '' ELSE 'token-' || id || '-' || %s END FROM unnest(%s::bigint[]) AS id",
                (place, refused, place, list(users)),
            )
        self.refresh()
        directory = self._directory()
        try:
            with psycopg.connect(self.config.database_url("monolith")) as connection:
                until("the devices' rows", lambda: directory.differing(connection) is None, every_s=0.5)
        finally:
            directory.close()

    def add_many_devices(self, user_id: int, count: int) -> range:
        """Add devices to a user, register them with the provider and wait for the directory. Return their ids."""
        ids = range(user_id * 100_000, user_id * 100_000 + count)
        application = function_environment(self.config)["PLATFORM_APPLICATION_ARN_GCM"]
        self._write_states({number: endpoint_arn(application, f"token-{number}") for number in ids})
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            connection.execute(
                "INSERT INTO devices (id, user_id, platform, token)"
                " SELECT id, %s, 'gcm', 'token-' || id FROM generate_series(%s::bigint, %s::bigint) AS id",
                (user_id, ids.start, ids.stop - 1),
            )
        self.refresh()
        self._await_rows()
        return ids

    def remove_devices(self, ids: range) -> None:
        """Delete devices from the monolith without waiting for the directory."""
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            connection.execute("DELETE FROM devices WHERE id BETWEEN %s AND %s", (ids.start, ids.stop - 1))
        self.refresh()

    def _write_states(self, endpoints: Mapping[int, str], token: Callable[[int], str] = "token-{}".format) -> None:
        """Write the device states that the device registrar would write. `endpoints` is device id → ARN."""
        states = OpenSearchDeviceStates(TestClient(self.config.opensearch_url))
        for some in batched(endpoints.items(), 10_000, strict=False):
            written = states.write(
                {
                    str(number): StatesOfDevice({self.generation: self._state(token(number), arn)})
                    for number, arn in some
                }
            )
            assert set(written.values()) == {None}
            self._with_states |= written.keys()

    def publish_states(self) -> None:
        """Produce the states to the topic of own documents, as the device registrar does."""
        codec = Codec(HttpSchemaRegistry(self.config.registry_url))
        producer = KafkaProducer(self.config.kafka_bootstrap)
        publisher = OpenSearchDocumentPublisher(connect(self.config.opensearch_url), codec, producer)
        publisher.publish(STATES, self._with_states)

    def _state(self, token: str, arn: str) -> DeviceState:
        return DeviceState(
            token=token,
            endpoint_arn=arn,
            enabled=True,
            reason=None,
            updated_at=1,
            generation=self.generation,
            row_version=1,
        )

    def hand_over(self, old: Sequence[int], new: Sequence[int]) -> None:
        """Move the token of each old user's first device to a new device of the new user, and delete all old devices.

        Waits until the directory has the rows and the devices have endpoints.
        """
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            for giver, taker in zip(old, new, strict=True):
                with connection.transaction():
                    connection.execute(
                        "INSERT INTO devices (id, user_id, platform, token)"
                        " SELECT %s, %s, platform, token FROM devices WHERE user_id = %s ORDER BY id LIMIT 1",
                        (taker * 10 + 7, taker, giver),
                    )
                    connection.execute("DELETE FROM devices WHERE user_id = %s", (giver,))
        self.refresh()
        self.await_directory(())
        devices = [taker * 10 + 7 for taker in new]
        directory = self._directory()
        try:
            until("endpoints", lambda: len(directory.endpoints(devices)) >= len(devices), 60, every_s=0.5)
        finally:
            directory.close()

    def log_in(self, users: Sequence[int], phones_of: Sequence[int]) -> None:
        """Give each user a device with the token of another one's first device, and no device of the user's own."""
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            connection.execute("DELETE FROM devices WHERE user_id = ANY(%s)", (list(users),))
            for user_id, other in zip(users, phones_of, strict=True):
                connection.execute(
                    "INSERT INTO devices (id, user_id, platform, token)"
                    " SELECT %s, %s, platform, token FROM devices WHERE user_id = %s ORDER BY id LIMIT 1",
                    (user_id * 10 + 7, user_id, other),
                )
        self.refresh()

    def log_out(self, deleting: Sequence[int], deactivating: Sequence[int]) -> None:
        """End the devices of users: delete the rows of some, and deactivate those of the others."""
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            connection.execute("DELETE FROM devices WHERE user_id = ANY(%s)", (list(deleting),))
            connection.execute("UPDATE devices SET active = false WHERE user_id = ANY(%s)", (list(deactivating),))
        self.refresh()

    def await_tokens_of(self, owners: Sequence[int], *, not_of: Sequence[int]) -> None:
        """Wait until the directory has the rows, and only the devices of the owners are enabled."""
        with psycopg.connect(self.config.database_url("monolith")) as connection:
            rows = connection.execute(
                "SELECT id, user_id = ANY(%s) FROM devices WHERE user_id = ANY(%s)",
                (list(owners), [*owners, *not_of]),
            ).fetchall()
        wanted: dict[int, bool] = dict(rows)
        self.await_directory(())
        directory = self._directory()
        try:
            until(
                "each token belongs to its owner",
                lambda: directory.enabled(wanted) == {number for number, owns in wanted.items() if owns},
                120,
                every_s=0.2,
            )
        finally:
            directory.close()

    def refresh(self) -> None:
        environment = function_environment(self.config)
        with psycopg.connect(self.config.database_url("monolith")) as connection:
            self.world = World.of_database(connection)
            rows = connection.execute("SELECT user_id, platform, token FROM devices WHERE active AND token <> ''")
            self.endpoints = {}
            for user_id, platform, token in rows:
                application = environment[f"PLATFORM_APPLICATION_ARN_{platform.upper()}"]
                self.endpoints.setdefault(user_id, []).append(endpoint_arn(application, token))

    def sleep(self, users: Sequence[int], ends: datetime | None) -> None:
        """Set quiet hours until `ends` (or none) for users with settings, and wait for the directory."""
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            set_quiet_hours(connection, users, ends)
            self._await_settings(connection, users)

    def remove_invalid_devices(self) -> None:
        """Delete devices without a token, because each new snapshot dead-letters their rows again."""
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            connection.execute("DELETE FROM devices WHERE token = ''")

    def truncate_devices(self, lost_by: Sequence[int]) -> None:
        """Truncate the table of devices, and insert the rows of all other users again in the same transaction."""
        with psycopg.connect(self.config.database_url("monolith")) as connection:
            connection.execute(
                "CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT * FROM devices WHERE user_id <> ALL(%s)",
                (list(lost_by),),
            )
            connection.execute("TRUNCATE devices")
            connection.execute("INSERT INTO devices SELECT * FROM kept")
        self.refresh()

    def change_tokens(self, users: Sequence[int]) -> None:
        """Change the token of each user's first device, without waiting for the directory."""
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            connection.execute(
                "UPDATE devices SET token = token || '-changed' WHERE user_id = ANY(%s) AND id %% 10 = 0",
                (list(users),),
            )
        self.refresh()

    def opt_out(self, users: Sequence[int], *, wait: bool = True) -> None:
        """Opt the users out of news; unless wait is false, wait until the directory has the change."""
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            connection.execute(
                "INSERT INTO user_settings (user_id, club_id, categories) SELECT unnest(%s::bigint[]), %s, %s::jsonb"
                " ON CONFLICT (user_id) DO UPDATE SET categories = excluded.categories",
                (list(users), CLUB, '{"news": false}'),
            )
            if wait:
                self._await_settings(connection, users)

    def _await_settings(self, connection: psycopg.Connection[Any], users: Sequence[int]) -> None:
        directory = self._directory()
        try:
            until(
                "the users as in the table",
                lambda: all(directory.behind(connection, user_id) is None for user_id in users),
            )
        finally:
            directory.close()

    def _insert(
        self, connection: psycopg.Connection[Any], statements: LiteralString, users: range, club_id: int = CLUB
    ) -> None:
        # create_tables() must run before the first snapshot: a migration waits for the end of every snapshot that reads
        # the tables.
        if not self.world.people:
            create_tables(connection)
            seed(connection, users=1)
        connection.execute("INSERT INTO clubs (id, name) VALUES (%s, 'Faults') ON CONFLICT DO NOTHING", (club_id,))
        values = {"club": club_id, "first": users.start, "last": users.stop - 1}
        with connection.transaction(), psycopg.ClientCursor(connection) as cursor:
            cursor.execute(statements, values)

    def _await_rows(self) -> None:
        """Wait until the directory has as many rows as each table; counting is a cheap request."""
        directory = self._directory()
        try:
            with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
                rows = {name: count(connection, name) for name in TABLES}
            until("the rows in the directory", lambda: directory.progress(rows) is None, 600, every_s=1)
        finally:
            directory.close()

    def _directory(self) -> Directory:
        return Directory(self.config.opensearch_url, self.generation)

    def await_directory(self, users: Iterable[int]) -> None:
        """Wait until the directory equals the tables and these users' devices have endpoints."""
        directory = self._directory()
        try:
            with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
                until("the directory as the tables", lambda: directory.differing(connection) is None, 120, every_s=0.5)
            devices = [
                user_id * 10 + place for user_id in users for place in range(len(self.endpoints.get(user_id, [])))
            ]
            until("endpoints", lambda: len(directory.endpoints(devices)) >= len(devices), 240, every_s=0.5)
        finally:
            directory.close()
