"""The people cells send to: rows in the monolith's tables, brought to the directory the way all rows are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import batched
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from devstack.config import GENERATION, StackConfig
from devstack.demo.directory import TABLES, Directory, set_quiet_hours
from devstack.demo.oracle import World
from devstack.service import function_environment
from emulators.sns_stand_in import endpoint_arn
from examples.monolith.seed import create_tables, seed
from functions.device_registrar.device_states import DeviceState, OpenSearchDeviceStates
from tests.support.servers.opensearch_client import TestClient
from tests.support.until import until

CLUB, OTHER_CLUB = CLUBS = 9, 13  # the same by what tenants share a queue by
FIRST_USER = 9_000_000_001
DEVICES_A_USER = 2  # at most

# By channel, what is sent. Everybody has an address and takes newsletters.
CATEGORIES = {"push": "news", "email": "newsletter"}

# One in ten each: no push, no news, no device, two devices; one in ten has no settings of their own, which is believed
# only once change data capture has passed the send. The rest has one device and allows everything.
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
    """Their e-mail address."""
    return f"user{user_id}@example.com"


def _token(user_id: int) -> str:
    """Of their first device."""
    return f"token-{user_id}-0"


def _count(connection: psycopg.Connection[Any], table: str) -> int:
    [(count,)] = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
    return int(count)


@dataclass
class Population:
    """world: all users, from the monolith's tables; endpoints: by user, the ARNs of their active devices.

    generation: the one whose indices are compared with the tables.
    """

    config: StackConfig
    world: World = field(default_factory=lambda: World({}))
    endpoints: dict[int, list[str]] = field(default_factory=dict)
    generation: str = GENERATION
    _next: int = FIRST_USER

    def grow(self, users: int, club_id: int = CLUB) -> range:
        """Add people and wait until the directory has them and SNS their endpoints; their ids."""
        added = self.insert(users, club_id)
        self.await_directory(added)
        return added

    def insert(self, users: int, club_id: int = CLUB) -> range:
        """Add people to the monolith, and do not wait; their ids."""
        added = range(self._next, self._next + users)
        self._next = added.stop
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            self._insert(connection, _INSERT, added, club_id)
        self.refresh()
        return added

    def grow_uniform(self, users: int) -> range:
        """Add people with one device each who want everything; their devices are known to the provider already.

        A hundred thousand devices would keep the registrar busy for minutes, which is another test's subject.
        """
        added = range(self._next, self._next + users)
        self._next = added.stop
        application = function_environment(self.config)["PLATFORM_APPLICATION_ARN_GCM"]
        endpoints = {user_id * 10: endpoint_arn(application, _token(user_id)) for user_id in added}
        self._write_states(endpoints, lambda number: _token(number // 10))
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            self._insert(connection, _INSERT_UNIFORM, added)
        self.refresh()
        self._await_rows()
        return added

    def add_devices(self, users: Sequence[int], place: int, *, refused: bool = False) -> None:
        """Another device each, under that place of their ids; waits until the directory has the rows.

        refused: without a token, so that there is never an endpoint.
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
        """So many devices of one user, known to the provider already; waits until the directory has them; their ids."""
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
        """Take rows away again, and do not wait."""
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            connection.execute("DELETE FROM devices WHERE id BETWEEN %s AND %s", (ids.start, ids.stop - 1))
        self.refresh()

    def _write_states(self, endpoints: Mapping[int, str], token: Callable[[int], str] = "token-{}".format) -> None:
        """What the registrar would write of these devices: ARN by device id."""
        states = OpenSearchDeviceStates(TestClient(self.config.opensearch_url))
        for some in batched(endpoints.items(), 10_000, strict=False):
            written = states.write(
                {
                    str(number): DeviceState(
                        token=token(number), endpoint_arn=arn, enabled=True, reason=None, version=1, updated_at=1
                    )
                    for number, arn in some
                }
            )
            assert set(written.values()) == {None}

    def hand_over(self, old: Sequence[int], new: Sequence[int]) -> None:
        """Phones change hands: the old owners' devices go, the new owners get one more each, with the token.

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

    def refresh(self) -> None:
        """Look at the monolith's tables again."""
        environment = function_environment(self.config)
        with psycopg.connect(self.config.database_url("monolith")) as connection:
            self.world = World.of_database(connection)
            rows = connection.execute("SELECT user_id, platform, token FROM devices WHERE active AND token <> ''")
            self.endpoints = {}
            for user_id, platform, token in rows:
                application = environment[f"PLATFORM_APPLICATION_ARN_{platform.upper()}"]
                self.endpoints.setdefault(user_id, []).append(endpoint_arn(application, token))

    def sleep(self, users: Sequence[int], ends: datetime | None) -> None:
        """People with settings have quiet hours until then, or none any more; waits until the directory says so."""
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            set_quiet_hours(connection, users, ends)
            self._await_settings(connection, users)

    def change_tokens(self, users: Sequence[int]) -> None:
        """Their first devices have other tokens; does not wait."""
        with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
            connection.execute(
                "UPDATE devices SET token = token || '-changed' WHERE user_id = ANY(%s) AND id %% 10 = 0",
                (list(users),),
            )
        self.refresh()

    def opt_out(self, users: Sequence[int], *, wait: bool = True) -> None:
        """They want no news any more; waits until the directory says the same, where it is to."""
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
        if not self.world.people:  # a migration waits for the end of every snapshot that reads the tables
            create_tables(connection)
            seed(connection, users=1)  # the templates
        connection.execute("INSERT INTO clubs (id, name) VALUES (%s, 'Faults') ON CONFLICT DO NOTHING", (club_id,))
        values = {"club": club_id, "first": users.start, "last": users.stop - 1}
        with connection.transaction(), psycopg.ClientCursor(connection) as cursor:
            cursor.execute(statements, values)

    def _await_rows(self) -> None:
        """Wait until each table's rows are there by number, which costs the directory nothing."""
        directory = self._directory()
        try:
            with psycopg.connect(self.config.database_url("monolith"), autocommit=True) as connection:
                rows = {name: _count(connection, name) for name in TABLES}
            until("the rows in the directory", lambda: directory.progress(rows) is None, 600, every_s=1)
        finally:
            directory.close()

    def _directory(self) -> Directory:
        return Directory(self.config.opensearch_url, self.generation)

    def await_directory(self, users: Iterable[int]) -> None:
        """Wait until the directory is as the tables, and these users' devices have endpoints."""
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
