"""`python -m lab.benchmarks.naive.events`: delivers events as a first attempt would.

A consumer posts each event to each subscribed endpoint, one request after the other, and commits each event. It has no
retries, no batches, no breaker and no results; a failed request is skipped.
"""

import argparse
import hashlib
import hmac
import json
import time
from pathlib import Path

import httpx
from confluent_kafka import Consumer

TOPIC = "naive.event"
# The name of its process among those that are measured.
ROLE = "naive events"
# The time limit of a request, as for webhooks.
TIMEOUT_S = 15.0
_SECRET = b"a secret of thirty-two bytes ...."


def run(bootstrap: str, endpoints: dict[str, list[str]], authority: str) -> None:
    """Consume and post events.

    Args:
        bootstrap: The address of Kafka.
        endpoints: The URLs of the endpoints by the tenant of their events.
        authority: The file of the authority of the endpoints' certificates.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": TOPIC,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    limits = httpx.Limits(max_keepalive_connections=None)
    with httpx.Client(verify=authority, timeout=TIMEOUT_S, trust_env=False, limits=limits) as client:
        consumer.subscribe([TOPIC], on_assign=lambda *_: print("ready", flush=True))
        while True:
            message = consumer.poll(1.0)
            if message is None or message.error() is not None:
                continue
            event = json.loads(message.value() or b"")
            for url in endpoints.get(str(event["club_id"]), []):
                _post(client, url, event)
            consumer.commit(message=message, asynchronous=False)


def _post(client: httpx.Client, url: str, event: dict[str, object]) -> None:
    body = json.dumps(event).encode()
    sent_at = str(int(time.time()))
    signed = hmac.digest(_SECRET, f"{event['event_id']}.{sent_at}.".encode() + body, hashlib.sha256).hex()
    headers = {
        "content-type": "application/json",
        "webhook-id": str(event["event_id"]),
        "webhook-timestamp": sent_at,
        "webhook-signature": f"v1,{signed}",
    }
    try:
        client.post(url, content=body, headers=headers)
    except httpx.HTTPError as error:
        print(f"{url}: {error!r}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.naive.events", description="A naive sender.")
    parser.add_argument("--kafka", required=True)
    parser.add_argument("--endpoints", type=Path, required=True)
    parser.add_argument("--authority", required=True)
    chosen = parser.parse_args()
    run(chosen.kafka, json.loads(chosen.endpoints.read_text()), chosen.authority)


if __name__ == "__main__":
    main()
