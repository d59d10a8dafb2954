"""Redirects the log lines of a command's clients (Kafka, HTTP, OpenSearch) to a file, so that the command prints
only its results.
"""

import logging
from pathlib import Path

# The `logger` argument of confluent-kafka's clients; without one, librdkafka writes to the terminal.
KAFKA_LOGGER = logging.getLogger("kafka_client")


def clients_log_to(path: Path) -> None:
    """Append warnings and errors of all libraries to a file, instead of printing them to standard error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
