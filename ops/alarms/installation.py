"""Describes an installation by the names of functions.yaml and schemas, without the names that a deployment gives."""

import json
from collections.abc import Iterable
from importlib.resources import files

from functions.catalogue import FunctionEntry
from ops.alarms.table import Installation, Servers

# The dimensions of the directory in OpenSearch.
DIRECTORY = {"DomainName": "local"}


def installation(
    name: str, entries: Iterable[FunctionEntry], *, helpers: Iterable[str], servers: Servers
) -> Installation:
    """Return an installation with these functions and servers.

    Args:
        name: The name of the installation, of its cluster and of its API.
        entries: The functions.
        helpers: The functions that only a deployment has.
        servers: The servers.
    """
    by_name = {each.name: each for each in entries}
    groups = {
        name: dict.fromkeys(each.event_source.topics, each.group)
        for name, each in by_name.items()
        if each.event_source is not None
    }
    tables = [json.loads(path.read_text()) for path in files("schemas").joinpath("dynamodb").iterdir()]
    return Installation(
        environment=name,
        entries=by_name,
        functions={each: each for each in by_name},
        helpers={each: each for each in helpers},
        missed={
            name: name for name, each in by_name.items() if each.schedule_s is not None or each.package == "receipts"
        },
        groups=groups,
        mappings={name: tuple(topics) for name, topics in groups.items()},
        cluster=name,
        brokers=1,
        burstable_brokers=False,
        directory=DIRECTORY,
        tables={each: each for each in sorted(table["table"]["TableName"] for table in tables)},
        api=name,
        stage=name,
        applications={"gcm": ("gcm", "GCM"), "apns": ("apns", "APNS")},
        servers=servers,
    )
