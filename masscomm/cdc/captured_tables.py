"""The monolith's tables that change data capture copies into the directory: `cdc.tables` in schemas/topics.yaml.

Every list of captured tables is computed from this one: topics, Debezium's settings, decoding, indices, aliases, the
event source mapping of cdc_consumer, permissions and erasure. schemas/indices has the columns that the directory keeps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from masscomm.kafka.topics import captured_table_entries


@dataclass(frozen=True, kw_only=True)
class CapturedTable:
    """One table of the monolith that change data capture copies."""

    name: str
    # Columns that are NOT NULL in the monolith; look-ups read them without a default value.
    required: tuple[str, ...] = ()
    # Columns that are stored as null if a row does not have them.
    null_where_absent: tuple[str, ...] = ()
    # The column with the id of the user that a row belongs to (`id` if it is the primary key); None if rows belong to
    # no user.
    person: str | None = None


@cache
def captured_tables() -> Mapping[str, CapturedTable]:
    """Return the captured tables by name, in the order of schemas/topics.yaml."""
    return MappingProxyType(
        {
            name: CapturedTable(
                name=name,
                required=tuple(entry.get("required", ())),
                null_where_absent=tuple(entry.get("null_where_absent", ())),
                person=entry.get("person"),
            )
            for name, entry in captured_table_entries().items()
        }
    )


def personal_tables() -> dict[str, str]:
    """Return the tables whose rows belong to users: table name → column of the user's id (see CapturedTable.person)."""
    return {name: table.person for name, table in captured_tables().items() if table.person is not None}
