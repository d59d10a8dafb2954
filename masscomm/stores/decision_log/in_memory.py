"""The decision log in memory, for unit tests."""

from masscomm.domain.ids import is_record_id
from masscomm.errors import DeadLetter


class InMemoryDecisionLog:
    """A decision log in a dictionary, for unit tests.

    Attributes:
        failing: An error that every call raises.
        calls: The number of calls that record decisions.
    """

    def __init__(self) -> None:
        self.recorded: dict[str, bytes] = {}
        self.failing: Exception | None = None
        self.calls = 0

    def put_if_absent(self, record_id: str, packed: bytes) -> bytes:
        self.calls += 1
        if self.failing is not None:
            raise self.failing
        if not is_record_id(record_id):
            raise DeadLetter("invalid", "the record's id is not a valid key")
        return self.recorded.setdefault(record_id, packed)

    def find(self, record_id: str) -> bytes | None:
        if self.failing is not None:
            raise self.failing
        return self.recorded.get(record_id)
