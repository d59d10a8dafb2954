"""The sent messages in memory, for unit tests."""

from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.sent_messages.port import Partition, Sent


class InMemorySentMessages(InMemoryStore):
    """A store in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        # What was sent of a partition, and when it was recorded, in seconds since the epoch.
        self.stored: dict[Partition, tuple[Sent, int]] = {}

    def find(self, partition: Partition) -> Sent:
        return self.stored.get(partition, ({}, 0))[0]

    def record(self, partition: Partition, sent: Sent, at_s: int) -> None:
        self.stored[partition] = {record: frozenset(positions) for record, positions in sent.items()}, at_s
