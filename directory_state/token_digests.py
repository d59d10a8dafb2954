"""Replaces the tokens of devices by digests.

A look-up only compares the token of a device's row with those of its states (masscomm/directory/device_states.py). With
a token itself, anybody could address the device.
"""

from dataclasses import replace
from hashlib import blake2b
from typing import Any

from masscomm.cdc.captured_tables import DEVICES
from masscomm.cdc.change_events import RowChanged
from masscomm.directory import device_states
from masscomm.directory.device_states import Source, document_of, states_in

# The length of a digest.
_BYTES = 16


def digest(token: Any) -> Any:
    """Return the digest of a token; any other value, such as a missing one, as it is."""
    return blake2b(token.encode(), digest_size=_BYTES).hexdigest() if isinstance(token, str) else token


def row_without_token(row: RowChanged) -> RowChanged:
    """Return a row with the digest of its token, if it has one."""
    if row.table != DEVICES or row.columns is None or "token" not in row.columns:
        return row
    return replace(row, columns={**row.columns, "token": digest(row.columns["token"])})  # guard: directory_state.tokens


def document_without_tokens(index: str, source: Source) -> Source:
    """Return one of masscomm's own documents with the digests of the tokens that it has."""
    if index != device_states.INDEX:
        return source
    # guard: directory_state.tokens_of_states
    return document_of([{**state, "token": digest(state.get("token"))} for state in states_in(source)])
