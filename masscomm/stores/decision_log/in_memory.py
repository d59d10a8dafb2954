"""The decision log in memory, for unit tests."""

from masscomm.domain.ids import is_record_id
from masscomm.errors import DeadLetter
from masscomm.stores.in_memory import InMemoryStore


class InMemoryDecisionLog(InMemoryStore):
    """A decision log in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: dict[str, bytes] = {}

    def put_if_absent(self, record_id: str, packed: bytes) -> bytes:
        if not is_record_id(record_id):
            raise DeadLetter("invalid", "the record's id is not a valid key")
        return self.recorded.setdefault(record_id, packed)

    def find(self, record_id: str) -> bytes | None:
        return self.recorded.get(record_id)
