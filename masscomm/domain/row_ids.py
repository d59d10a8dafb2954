"""The ids of documents whose rows have a key of several columns: the values, joined."""

# Only the last value may contain it, so that no two keys have one id.
SEPARATOR = ":"
# The longest key of LMDB, which the stores of directory_state have. An id in OpenSearch may have one byte more.
MAX_BYTES = 511


def row_id(*values: int | str) -> str:
    """Return the id of a row with these values in its key. Raises ValueError if they cannot be an id."""
    *first, last = map(str, values)
    found = SEPARATOR.join((*first, last))
    if not all(first) or not last or any(SEPARATOR in value for value in first):
        raise ValueError(f"a value of the key is empty, or contains {SEPARATOR} and is not the last one")
    if len(found.encode()) > MAX_BYTES:
        raise ValueError(f"the key has more than {MAX_BYTES} bytes")
    return found
