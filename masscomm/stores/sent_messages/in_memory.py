"""The sent messages in memory, for unit tests."""

from collections.abc import Mapping
from copy import deepcopy

from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.sent_messages.port import Partition, Sent


class InMemorySentMessages(InMemoryStore):
    """A store in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        # What was sent of a partition, and when it was recorded, in seconds since the epoch.
        self.stored: dict[Partition, tuple[Sent, int]] = {}

    def find(self, partition: Partition) -> Sent:
        return self.stored.get(partition, (Sent(), 0))[0]

    def record(self, sent: Mapping[Partition, Sent], at_s: int) -> None:
        self.stored |= {partition: (deepcopy(each), at_s) for partition, each in sent.items()}
