from confluent_kafka.admin import AdminClient

from local.devstack.config import StackConfig


def test_a_worker_gets_the_address_of_a_running_broker(kafka: StackConfig) -> None:
    brokers = AdminClient({"bootstrap.servers": kafka.kafka_bootstrap}).list_topics(timeout=10).brokers
    assert [broker.port for broker in brokers.values()] == [kafka.ports.kafka]
