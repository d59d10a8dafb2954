"""An AdminClient that is destroyed by whoever has no more use for it.

confluent-kafka destroys a client when Python frees it, and when that is cannot be said: a future that failed keeps its
exception, this its traceback, and this the frames in which the client is named. Such a ring is left to the garbage
collector, in whichever thread it happens to run. Where that is the client's own, which calls its futures' callbacks,
librdkafka ends the process: it must not be destroyed from there (confluent-kafka-python, pull requests 2129 and 2131).
A client that was destroyed before is only memory, which may be collected anywhere.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class KafkaAdmin:
    """One client at a time, for one thread at a time; there is none before the first question."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """config: librdkafka's."""
        self._config = dict(config)
        self._client: AdminClient | None = None

    def client(self) -> "AdminClient":
        """To be asked and not to be kept: a client that was closed raises RuntimeError."""
        from confluent_kafka.admin import AdminClient

        if self._client is None:
            self._client = AdminClient(self._config)
        return self._client

    def close(self) -> None:
        """Destroy the client, in this thread; the next question is put to another.

        What it was asked and has not answered is never answered: nobody may be waiting for one of its futures.
        """
        client, self._client = self._client, None
        if client is not None:
            client.__exit__(None, None, None)  # it has no close(); Python's freeing it comes too late
