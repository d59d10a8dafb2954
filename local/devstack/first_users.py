"""The first users of a new stack: a small part of the example's seed, with the users that the pages name."""

import threading
import time
from collections.abc import Mapping, Sequence

import psycopg
from rich.table import Table

from examples.monolith import rows
from examples.monolith.seed import User, generate, seed
from local.devstack.config import EXAMPLE, GENERATION, StackConfig, example
from local.devstack.demo.directory import Directory
from local.devstack.service import Task, json_at
from ops.provisioning import ProvisioningError

USERS = 60
SEED = 7
# The users that a start shows: a phone of each kind, three languages, one who gets everything and some who do not.
SHOWN = (42, 43, 30, 25, 60)
DIRECTORY_TIMEOUT_S = 120.0


class FirstUsers:
    """Writes the first users into the monolith of the example, if it has none."""

    def __init__(self, config: StackConfig) -> None:
        self._config = config
        # Whether the stack has the example's tables, in its own database.
        self.apply = config.monolith_url is None and example() == EXAMPLE
        self._seeded = False

    def tasks(self) -> list[Task]:
        """Return the steps of a start: write the rows, then wait until the functions know the users and devices."""
        if not self.apply:
            return []
        write = Task(name="users", depends_on=("monolith",), pending=list, run=self._write)
        known = ("users", "connector", "lambda_host")
        return [write, Task(name="devices", depends_on=known, pending=list, run=self._await_directory)]

    def _write(self) -> None:
        with psycopg.connect(self._config.database_url("monolith")) as connection:
            if not rows.count(connection, "users"):
                seed(connection, USERS, SEED)
                self._seeded = True

    def _await_directory(self) -> None:
        """Wait until the functions answer look-ups and the devices of the shown users have their endpoints, which
        LocalStack loses when it ends: a send is then delivered at once.

        In later starts the user may have changed these devices. Then device_registrar has no more records to read.
        """
        devices = [device.id for user in shown_users() for device in user.devices if device.active]
        directory = Directory(self._config.opensearch_url, GENERATION)
        pause = threading.Event()
        deadline = time.monotonic() + DIRECTORY_TIMEOUT_S

        def known() -> bool:
            found = directory.is_complete() and len(directory.endpoints(devices)) == len(devices)
            return found or (not self._seeded and self._devices_are_read())

        try:
            while not known():
                if time.monotonic() > deadline:
                    raise ProvisioningError(f"the devices of the first users have no endpoints: {devices}")
                pause.wait(0.1)
        finally:
            directory.close()

    def _devices_are_read(self) -> bool:
        mapping = json_at(f"{self._config.gateway_url}/-/status")["mappings"]["device_registrar"]
        partitions = mapping["partitions"].values()
        return bool(partitions) and all(each["lag"] == 0 for each in partitions)


def shown_users() -> list[User]:
    """Return the users that a start shows, as the seed has them."""
    found = {user.id: user for user in generate(USERS, SEED) if user.id in SHOWN}
    return [found[user_id] for user_id in SHOWN]


def people_table(users: Sequence[User]) -> Table:
    """Return a table of users to send to."""
    table = Table(title="People to send to", title_justify="left", box=None, pad_edge=False)
    for heading in ("id", "name", "language", "receives by", "settings"):
        table.add_column(heading, no_wrap=heading != "settings", overflow="fold")
    for user in users:
        phones = [f"push ({device.platform})" for device in user.devices if device.active]
        by = ", ".join([*phones, *(["email"] if user.email else [])])
        table.add_row(str(user.id), f"{user.first_name} {user.last_name}", user.locale, by, _settings(user))
    return table


def _settings(user: User) -> str:
    """Return what the settings of a user exclude and permit, in a few words."""
    if user.settings is None:
        return "the defaults"
    refused = [name for name, wanted in user.settings.channels.items() if wanted is False]
    permitted = []
    for category, wanted in user.settings.categories.items():
        if isinstance(wanted, Mapping):
            refused += [f"{category} by {channel}" for channel, on in wanted.items() if not on]
            permitted += [f"{category} by {channel}" for channel, on in wanted.items() if on]
        else:
            (permitted if wanted else refused).append(category)
    words = [f"no {', no '.join(refused)}"] if refused else ["everything"]
    return "; but ".join([*words, *([", ".join(permitted)] if permitted else [])])
