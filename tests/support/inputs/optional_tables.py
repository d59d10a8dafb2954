"""A schemas/source.yaml with optional tables of the directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from local.devstack.config import ROOT
from masscomm.cdc import captured_tables
from masscomm.domain import source_tables
from masscomm.kafka import topics

ENTRIES: dict[str, dict[str, Any]] = {
    "tenant_user_settings": {
        "table": "public.club_settings_of_users",
        "key": ["user_id", "club_id"],
        "columns": {name: name for name in ("user_id", "club_id", "channels", "categories", "updated_at")},
    },
    "tenant_settings": {
        "table": "public.club_settings",
        "key": "club_id",
        "columns": {name: name for name in ("club_id", "channels", "categories", "updated_at")},
    },
    "memberships": {
        "table": "public.follows",
        "key": ["user_id", "kind", "object"],
        "columns": {
            "user_id": "user_id",
            "kind": "kind",
            "object": {"column": "object", "format": "text"},
            "club_id": "club_id",
            "muted": "muted",
        },
    },
}
_CACHES = (
    source_tables._document,
    source_tables.source_tables,
    captured_tables.captured_tables,
    captured_tables.settings_tables,
    topics._cdc_entries,
    topics.generation_of,
)


def source_with(*names: str) -> str:
    """Return the YAML of a file with these optional tables."""
    document = yaml.safe_load((ROOT / "schemas" / "source.yaml").read_text())
    return yaml.safe_dump(document | {"tables": document["tables"] | {name: ENTRIES[name] for name in names}})


@contextmanager
def mapped(*names: str) -> Iterator[None]:
    """Let schemas/source.yaml map these optional tables meanwhile."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        file = Path(folder) / "source.yaml"
        file.write_text(source_with(*names))
        patched.setenv(source_tables.SOURCE_VARIABLE, str(file))
        _forget()
        try:
            yield
        finally:
            patched.undo()
            _forget()


def _forget() -> None:
    for each in _CACHES:
        each.cache_clear()
