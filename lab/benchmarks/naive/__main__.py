"""`python -m lab.benchmarks.naive STEP`: runs one program of the naive chain, and prints a line once it consumes."""

import argparse
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Consumer, Producer
from opensearchpy import OpenSearch

from local.devstack.service import local_client
from masscomm.channels.push import push_attributes, push_message
from masscomm.domain.ids import notification_id

SEND, BUILD, DELIVERY = TOPICS = ("naive.send", "naive.build", "naive.delivery")
STEPS = {"checker": (SEND, BUILD), "builder": (BUILD, DELIVERY), "delivery": (DELIVERY, None)}

type Event = dict[str, Any]
type Step = Callable[[Event], Event | None]


def checker(search: OpenSearch) -> Step:
    def check(event: Event) -> Event | None:
        settings = search.get(index="user_settings", id=event["user_id"])["_source"]
        return event if settings["channels"].get("push", True) else None

    return check


def builder(search: OpenSearch) -> Step:
    def build(event: Event) -> Event:
        user = search.get(index="users", id=event["user_id"])["_source"]
        return event | {"title": f"{event['title']}, {user['first_name']}"}

    return build


def delivery(search: OpenSearch, sns_url: str) -> Step:
    sns = local_client(sns_url, "sns")

    def deliver(event: Event) -> None:
        # In the measured directory, each user has one device, whose id equals the user's id.
        device = search.get(index="devices", id=event["user_id"])["_source"]
        endpoint = search.get(index="device_state", id=event["user_id"])["_source"]["endpoint_arn"]
        attributes = push_attributes(device["platform"], endpoint, collapse_id=None, ttl_s=None)
        sns.publish(
            TargetArn=endpoint,
            Message=push_message(
                device["platform"],
                endpoint,
                title=event["title"],
                body=event["body"],
                notification_id=notification_id(event["send_id"], event["user_id"], "push"),
                send_id=event["send_id"],
                collapse_id=None,
            ),
            MessageStructure="json",
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
            },
        )

    return deliver


def run(step: Step, bootstrap: str, source: str, target: str | None) -> None:
    """Consume events one at a time. Produce, flush and commit after each."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": source,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap})
    consumer.subscribe([source], on_assign=lambda *_: print("ready", flush=True))
    while True:
        message = consumer.poll(1.0)
        if message is None or message.error() is not None:
            continue
        event = step(json.loads(message.value() or b""))
        if target is not None and event is not None:
            producer.produce(target, json.dumps(event).encode())
            producer.flush()
        consumer.commit(message=message, asynchronous=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.naive", description="One program of the naive chain."
    )
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--kafka", required=True)
    parser.add_argument("--opensearch", required=True)
    parser.add_argument("--sns", required=True)
    chosen = parser.parse_args()
    address = urlsplit(chosen.opensearch)
    search = OpenSearch([{"host": address.hostname, "port": address.port}])
    steps = {"checker": checker, "builder": builder, "delivery": lambda search: delivery(search, chosen.sns)}
    step = steps[chosen.step](search)  # type: ignore[no-untyped-call]
    run(step, chosen.kafka, *STEPS[chosen.step])


if __name__ == "__main__":
    main()
