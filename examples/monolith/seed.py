"""Fill the monolith's tables with realistic users, which are the same for the same seed number.

    python -m examples.monolith.seed --dsn postgresql://… --users 10000 --seed 7

The big club (id 1) has the requested number of users; three small clubs are added. A user's attributes depend only on
the seed number and the user's number in the club, so a larger run only adds users. A repeated run writes only rows that
differ from the seed, and so reverts their changes.

By default no user has quiet hours, because the result of a send would depend on the time of day. With `--quiet-hours
0.05`, one in twenty of the users with settings has quiet hours.
"""

import argparse
import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from examples.monolith.templates import TEMPLATES

BIG_CLUB = 1
CLUBS = {BIG_CLUB: "United Sports Association", 2: "Riverside Rowing", 3: "Northside Chess", 4: "Harbour Swimmers"}
SMALL_CLUB_USERS = 25

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_FIRST_NAMES = (
    "Ada", "Ben", "Chloé", "Dieter", "Emma", "Farid", "Grace", "Hugo", "Inès", "Jonas", "Kateřina", "Liam", "Mia",
    "Noah", "Olga", "Paul", "Quentin", "Rosa", "Søren", "Tariq", "Ursula", "Victor", "Wanda", "Xavier", "Yara", "Zoë",
)  # fmt: skip
_LAST_NAMES = (
    "Abel", "Bauer", "Costa", "Dupont", "Evans", "Fischer", "Garcia", "Hansen", "Ivanova", "Jones", "Kowalski",
    "Lefèvre", "Müller", "Novák", "O'Neill", "Petit", "Quinn", "Rossi", "Schmidt", "Tanaka", "Umar", "Vogel", "Weber",
    "Yilmaz", "Zhang",
)  # fmt: skip
_LOCALES = (("en", 50), ("en-GB", 8), ("de", 18), ("de-AT", 4), ("fr", 14), ("pt", 6))
_TIME_ZONES = (
    ("Europe/Berlin", 45), ("Europe/London", 20), ("Europe/Paris", 15), ("America/New_York", 12), ("Asia/Tokyo", 8),
)  # fmt: skip
_DEVICE_COUNTS = ((0, 12), (1, 68), (2, 15), (3, 5))
# User settings (channels, categories) with their weights; None: the user has never saved settings.
_CHOICES: tuple[tuple[tuple[dict[str, bool], dict[str, Any]] | None, int], ...] = (
    (None, 20),
    (({}, {}), 30),
    (({"push": True, "email": True}, {}), 14),
    (({"push": False}, {}), 7),
    (({"push": True, "email": False}, {}), 7),
    (({"push": False, "email": False}, {}), 3),
    (({}, {"news": False}), 6),
    (({}, {"news": {"push": False}}), 4),
    (({"push": False}, {"news": True}), 2),
    (({"push": False}, {"news": {"push": True}}), 2),
    (({"push": True}, {"news": {"push": False}, "newsletter": False}), 2),
    (({"email": False}, {"newsletter": {"email": True}, "match_reminder": False}), 2),
    (({}, {"security_alert": False, "one_time_password": False}), 1),
)


@dataclass(frozen=True)
class UserSettings:
    """A row of user_settings."""

    channels: dict[str, bool]
    categories: dict[str, Any]
    quiet_hours: dict[str, str] | None


@dataclass(frozen=True)
class Device:
    """A row of devices."""

    id: int
    # The push service of the device: gcm or apns.
    platform: str
    token: str
    active: bool


@dataclass(frozen=True)
class User:
    """A user with their settings and devices."""

    id: int
    club_id: int
    first_name: str
    last_name: str
    email: str | None
    phone: str | None
    locale: str
    time_zone: str
    created_at: datetime
    # The user's settings; None: the table user_settings has no row of the user.
    settings: UserSettings | None
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class SeedReport:
    """The result of a run."""

    users: int
    seed: int
    # The number of rows that the seed has in each table.
    rows: dict[str, int] = field(default_factory=dict)
    # The number of rows that the run wrote or removed in each table.
    written: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def rows_per_s(self) -> float:
        """Return the rows of the seed per second, in all tables."""
        return sum(self.rows.values()) / self.seconds if self.seconds else 0.0


def user_ids(club_id: int, count: int) -> range:
    """Return the ids of a club's first users: from 1 in the big club, from club_id * 100,000,000 + 1 in the others."""
    first = 1 if club_id == BIG_CLUB else club_id * 100_000_000 + 1
    return range(first, first + count)


def generate(users: int, seed: int, quiet_hours: float = 0.0) -> Iterator[User]:
    """Generate the users of a seed.

    Args:
        users: The number of users of the big club; the users of the small clubs follow.
        seed: The seed number.
        quiet_hours: The share of the users with settings that have quiet hours.
    """
    for club_id in CLUBS:
        random = Random(f"{seed}/{club_id}")
        for user_id in user_ids(club_id, users if club_id == BIG_CLUB else SMALL_CLUB_USERS):
            yield _user(random, seed, club_id, user_id, quiet_hours)


def _pick[T](random: Random, weighted: tuple[tuple[T, int], ...]) -> T:
    """Return a random value; the weights are percentages."""
    point = random.random() * 100
    for value, weight in weighted:
        point -= weight
        if point < 0:
            return value
    return weighted[-1][0]


def _user(random: Random, seed: int, club_id: int, user_id: int, quiet_hours: float) -> User:
    first_name, last_name = random.choice(_FIRST_NAMES), random.choice(_LAST_NAMES)
    choice = _pick(random, _CHOICES)
    quiet = {"start": "22:00", "end": "07:00"} if random.random() < quiet_hours else None
    return User(
        id=user_id,
        club_id=club_id,
        first_name=first_name,
        last_name=last_name,
        email=f"user{user_id}@club{club_id}.example" if random.random() < 0.9 else None,
        phone=f"+49151{user_id:08d}" if random.random() < 0.6 else None,
        locale=_pick(random, _LOCALES),
        time_zone=_pick(random, _TIME_ZONES),
        created_at=_EPOCH - timedelta(minutes=random.randrange(1_000_000)),
        settings=None if choice is None else UserSettings(*choice, quiet),
        devices=tuple(_device(random, seed, user_id * 10 + n) for n in range(_pick(random, _DEVICE_COUNTS))),
    )


def _device(random: Random, seed: int, device_id: int) -> Device:
    # The tokens have realistic lengths: 64 hexadecimal digits for Apple, about 160 characters for Google.
    digest = hashlib.sha256(f"{seed}/{device_id}".encode()).hexdigest()
    platform = "gcm" if random.random() < 0.6 else "apns"
    token = digest if platform == "apns" else f"{digest[:22]}:APA91b{digest}{digest}"
    return Device(device_id, platform, token, active=random.random() < 0.97)


# The columns of each table, key first. A row is written if one of them differs; updated_at is not compared.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "clubs": ("id", "name"),
    "users": ("id", "club_id", "first_name", "last_name", "email", "phone", "locale", "time_zone", "created_at"),
    "user_settings": ("user_id", "club_id", "channels", "categories", "quiet_hours"),
    "devices": ("id", "user_id", "platform", "token", "active"),
    "notification_templates": ("id", "club_id", "type", "channel", "locale", "title", "body", "html", "url"),
}


def _rows(table: str, users: int, seed: int, quiet_hours: float) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table. The users are generated again for each table, because a million users need much
    memory.
    """
    match table:
        case "clubs":
            yield from CLUBS.items()
        case "notification_templates":
            for number, t in enumerate(TEMPLATES, 1):
                yield number, t.club_id, t.type, t.channel, t.locale, t.title, t.body, t.html, t.url
        case "users":
            for u in generate(users, seed, quiet_hours):
                yield u.id, u.club_id, u.first_name, u.last_name, u.email, u.phone, u.locale, u.time_zone, u.created_at
        case "user_settings":
            for u in generate(users, seed, quiet_hours):
                if (s := u.settings) is not None:
                    quiet = None if s.quiet_hours is None else Jsonb(s.quiet_hours)
                    yield u.id, u.club_id, Jsonb(s.channels), Jsonb(s.categories), quiet
        case "devices":
            for u in generate(users, seed, quiet_hours):
                for device in u.devices:
                    yield device.id, u.id, device.platform, device.token, device.active


def create_tables(connection: psycopg.Connection[Any]) -> None:
    """Run schema.sql in the connection's transaction. Existing tables remain unchanged."""
    connection.execute(Path(__file__).with_name("schema.sql").read_text())


def seed(
    connection: psycopg.Connection[Any], users: int = 10_000, seed: int = 7, quiet_hours: float = 0.0
) -> SeedReport:
    """Write the seed's users, settings, devices, clubs and templates in one transaction.

    Equal rows are not written, so that change data capture emits no event for them; different rows are overwritten.
    Settings and devices of the seed's users are deleted if the seed does not have them. Other users remain unchanged.
    The memory does not depend on the number of users.

    Raises:
        psycopg.Error: The transaction failed and wrote nothing.
    """
    began = time.monotonic()
    rows, written = {}, {}
    with connection.transaction():
        for table in _COLUMNS:
            rows[table], written[table] = _upsert(connection, table, _rows(table, users, seed, quiet_hours))
        for table in ("user_settings", "devices"):
            written[table] += _remove_extra(connection, table)
    return SeedReport(users=users, seed=seed, rows=rows, written=written, seconds=time.monotonic() - began)


def _upsert(connection: psycopg.Connection[Any], table: str, rows: Iterable[tuple[Any, ...]]) -> tuple[int, int]:
    """Write the rows of a table. Return the number of rows, and the number of new or different ones."""
    key, *others = _COLUMNS[table]
    names = {
        "table": sql.Identifier(table),
        "staging": sql.Identifier(f"seed_{table}"),
        "key": sql.Identifier(key),
        "columns": sql.SQL(", ").join(map(sql.Identifier, (key, *others))),
        "old": sql.SQL(", ").join(sql.Identifier(table, name) for name in others),
        "new": sql.SQL(", ").join(sql.Identifier("excluded", name) for name in others),
        "set": sql.SQL(", ").join(
            [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others]
            + ([] if table == "clubs" else [sql.SQL("updated_at = now()")])
        ),
    }
    connection.execute(
        sql.SQL("CREATE TEMPORARY TABLE {staging} ON COMMIT DROP AS SELECT {columns} FROM {table} WITH NO DATA").format(
            **names
        )
    )
    count = 0
    with connection.cursor() as cursor:
        with cursor.copy(sql.SQL("COPY {staging} ({columns}) FROM STDIN").format(**names)) as copy:
            for count, row in enumerate(rows, 1):  # noqa: B007 - counted on the way
                copy.write_row(row)
        cursor.execute(
            sql.SQL(
                "INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging} ORDER BY {key}"
                " ON CONFLICT ({key}) DO UPDATE SET {set} WHERE ({old}) IS DISTINCT FROM ({new})"
            ).format(**names)
        )
        return count, cursor.rowcount


def _remove_extra(connection: psycopg.Connection[Any], table: str) -> int:
    key = _COLUMNS[table][0]
    return connection.execute(
        sql.SQL(
            "DELETE FROM {table} WHERE user_id IN (SELECT id FROM seed_users)"
            " AND NOT EXISTS (SELECT FROM {staging} AS seeded WHERE seeded.{key} = {table}.{key})"
        ).format(table=sql.Identifier(table), staging=sql.Identifier(f"seed_{table}"), key=sql.Identifier(key))
    ).rowcount


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill the monolith's tables: the same users for the same seed number.")
    parser.add_argument(
        "--dsn", required=True, help="the monolith's database, e.g. postgresql://user@host:5432/monolith"
    )
    parser.add_argument("--users", type=int, default=10_000, help="users of the big club (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="seed number (default: %(default)s)")
    parser.add_argument(
        "--quiet-hours",
        type=float,
        default=0.0,
        help="share of the users with settings that get quiet hours (default: %(default)s)",
    )
    arguments = parser.parse_args()
    with psycopg.connect(arguments.dsn) as connection:
        create_tables(connection)
        report = seed(connection, arguments.users, arguments.seed, arguments.quiet_hours)
    for table, count in report.rows.items():
        print(f"{table:24} {count:>10,} rows, {report.written[table]:>10,} written")
    print(f"{report.seconds:.2f} s, {report.rows_per_s:,.0f} rows/s")


if __name__ == "__main__":
    main()
