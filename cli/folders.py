"""The folders that commands read and write."""

from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of logs, data and secrets: MASSCOMM_STATE, or `.state` in the checkout."""
    return Path(environment.get("MASSCOMM_STATE") or ROOT / ".state").expanduser().resolve()
