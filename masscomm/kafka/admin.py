"""A wrapper of Kafka's AdminClient that destroys the client explicitly.

Without it, confluent-kafka destroys a client when Python frees the object, at an unpredictable time: a failed future
references its exception, the exception its traceback, and the traceback the frames that reference the client. The
garbage collector frees such a cycle in any thread. If this happens in the client's own thread, which calls the futures'
callbacks, librdkafka ends the process, because a client must not be destroyed there (confluent-kafka-python, pull
requests 2129 and 2131). A client that has already been destroyed is plain memory, which can be freed in any thread.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class KafkaAdmin:
    """Holds one AdminClient at a time, for one thread at a time. The client is created at its first use."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self._client: AdminClient | None = None

    def client(self) -> "AdminClient":
        """Return the current client. Callers must not keep it: a closed client raises RuntimeError."""
        from confluent_kafka.admin import AdminClient

        if self._client is None:
            self._client = AdminClient(self._config)
        return self._client

    def close(self) -> None:
        """Destroy the client in this thread; the next use creates another one.

        Its pending futures never complete, so no thread may wait for one.
        """
        client, self._client = self._client, None
        if client is not None:
            client.__exit__(None, None, None)  # AdminClient has no close(), and Python frees the object too late.
