from uuid import uuid4

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from local.devstack.config import StackConfig
from spark_metrics.common.broker import Broker
from tests.support.spark.metrics_job import wait_until


def test_a_topic_that_is_made_again_has_another_id(kafka: StackConfig) -> None:
    name, other = f"again-{uuid4().hex}", f"other-{uuid4().hex}"
    broker = Broker(kafka.kafka_bootstrap)
    with AdminClient({"bootstrap.servers": kafka.kafka_bootstrap}) as admin:

        def make(topic: str) -> None:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)

        for topic in (name, other):
            make(topic)
        wait_until("the topics", lambda: not broker.missing([name, other]))
        before = broker.topic_ids([name, other])
        assert len(set(before.values())) == 2
        assert broker.topic_ids([name, other]) == before
        admin.delete_topics([name])[name].result(30)
        wait_until("the topic's end", lambda: broker.missing([name]))
        make(name)
        wait_until("the topic", lambda: not broker.missing([name]))
        after = broker.topic_ids([name, other])
    assert after[name] != before[name]
    assert after[other] == before[other]
