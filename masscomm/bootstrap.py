"""What every Kafka-triggered function is built from."""

from aws_lambda_powertools import Logger

from masscomm import settings
from masscomm.batch import BatchDriver
from masscomm.dead_letter_alarm import DEFAULT_LIMIT, DeadLetterAlarm
from masscomm.producer import KafkaProducer
from masscomm.wire import Codec, HttpSchemaRegistry


def batch_driver(function: str, logger: Logger) -> BatchDriver:
    """The batch driver over the real broker and registry. Errors: Stop where the environment lacks a setting."""
    return BatchDriver(
        function=function,
        codec=Codec(HttpSchemaRegistry(settings.required("SCHEMA_REGISTRY_URL"))),
        producer=KafkaProducer(settings.required("KAFKA_BOOTSTRAP_SERVERS")),
        logger=logger,
        alarm=DeadLetterAlarm(
            function=function, limit=settings.number("DEAD_LETTER_ALARM_LIMIT", DEFAULT_LIMIT), logger=logger
        ),
    )
