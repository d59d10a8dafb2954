"""The logger of Kafka clients that operators use."""

import logging

# The `logger` argument of confluent-kafka's clients; without one, librdkafka writes to standard error.
KAFKA_LOGGER = logging.getLogger("kafka_client")
