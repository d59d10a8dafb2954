"""Measure which share of a provider's quota several delivery functions use that do not communicate.

    python -m lab.benchmarks.rate_limiter [--per-s 300] [--functions 4] [--seconds 20]

Each function is a process with the use case of delivery, the real SNS client and a delivery ledger in memory. All
functions call the devstack's SNS stand-in, which throttles calls above its total rate. The cases differ in the
configured rate of the functions: none, half of the quota, the whole quota, three times the quota.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from functions.delivery.deliver import Deliver
from functions.delivery.retry_scheduler import RetryScheduler
from local.devstack.service import AWS_CREDENTIALS
from local.devstack.sns_process import SnsStandIn
from local.emulators.sns_stand_in import endpoint_arn
from masscomm.chain.batch import BatchDriver
from masscomm.chain.email_pauses import EmailPauses
from masscomm.chain.sms_spending import SmsSpending
from masscomm.channels.gateway import ProviderGateway
from masscomm.channels.in_memory import InMemoryEmail, InMemorySms
from masscomm.channels.provider_calls import Caller
from masscomm.channels.rate_limiter import RateLimiter
from masscomm.channels.senders import EmailSender, PushSender, SmsSender
from masscomm.channels.sns_push import SnsPush
from masscomm.clock import SystemClock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.delays import RetrySchedule
from masscomm.domain.email_settings import read_emails
from masscomm.domain.records import NotificationOutcome
from masscomm.domain.users import Device, UserSettings
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.producer import InMemoryProducer
from masscomm.observability import logs
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delivery_ledger.in_memory import InMemoryDeliveryLedger
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import delivery, entry

APPLICATION = "arn:aws:sns:eu-central-1:000000000000:app/GCM/pacing"
RECIPIENTS = 500
# The unmeasured seconds at the start, in which the rate limiters adapt.
WARM_UP_S = 6.0
# The share of the quota that must be used in each measured second.
TARGET = 0.97


class DirectoryWithDevices(InMemoryDirectory):
    """A directory in which each user has one device, whose id equals the user's id."""

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        return {user_id: [_device(user_id)] for user_id in user_ids}

    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]:  # noqa: ARG002
        return {}


def _device(user_id: int) -> Device:
    arn = endpoint_arn(APPLICATION, str(user_id))
    return Device(device_id=user_id, user_id=user_id, platform="gcm", endpoint_arn=arn)


class Minute:
    """A Lambda context whose remaining time is one minute at its creation."""

    def __init__(self) -> None:
        self._until = time.monotonic() + 60

    def get_remaining_time_in_millis(self) -> int:
        return max(0, round((self._until - time.monotonic()) * 1000))


def work(url: str, number: int, until: float, per_s: float | None) -> dict[str, int]:
    """Run one function, record after record, until the given time (seconds since the epoch). Return its recipients by
    status.
    """
    clock, registry, producer = SystemClock(), InMemorySchemaRegistry(), InMemoryProducer()
    for topic in topics.chain_topics():
        if topic.schema is not None:
            registry.register(topic.subject, own_schema(topic.schema))
    codec, store = Codec(registry), InMemoryDelayStore()
    os.environ |= {"AWS_ENDPOINT_URL_SNS": url}
    sends = InMemorySends()
    use_case = Deliver(
        directory=DirectoryWithDevices(),
        sends=sends,
        ledger=InMemoryDeliveryLedger(clock=clock),
        gateway=ProviderGateway(clock=clock, rate_limiters={"push": RateLimiter(clock, per_s=per_s)}),
        caller=Caller(
            senders={
                "push": PushSender(provider=SnsPush()),
                "email": EmailSender(provider=InMemoryEmail(), emails=read_emails({}, sender="a@example.com")),
                "sms": SmsSender(provider=InMemorySms()),
            },
            clock=clock,
        ),
        spending=SmsSpending(store=InMemoryKeyUsage(), clock=clock),
        retry_scheduler=RetryScheduler(store=store, retry_schedule=RetrySchedule(), clock=clock),
        pauses=EmailPauses(sends=sends, audit_log=InMemoryAuditLog(), clock=clock, logger=logs.logger("delivery")),
        pool=ThreadPoolExecutor(8),
        clock=clock,
    )
    driver = BatchDriver(function="delivery", codec=codec, producer=producer)
    became: Counter[str] = Counter()
    redelivered = 0
    for turn in count():
        if time.time() > until:
            break
        users = [number * 10**8 + turn * RECIPIENTS + place for place in range(RECIPIENTS)]
        now = clock.now_ms()
        record = delivery(users, record_id=str(uuid4()), timestamp=now, built_at=now)
        value = codec.encode(topics.DELIVERY, "DeliveryRequested", record.to_avro())
        event = {"records": {f"{topics.DELIVERY}-0": [entry(value, topic=topics.DELIVERY)]}}
        redelivered += len(driver.run(event, Minute(), use_case)["batchItemFailures"])
        for name, _, encoded, _ in producer.produced:
            if name == topics.OUTCOME:
                outcome = NotificationOutcome.from_avro(codec.decode("NotificationOutcome", encoded))
                became.update({result.status: result.count for result in outcome.results})
        producer.produced.clear()
    return {**became, "records again": redelivered}


def measure(*, per_s: float, functions: int, seconds: float, share: float | None) -> dict[str, Any]:
    """Measure one case. Return the used share of the limit after the warm-up, the throttles, and the recipients by
    status.
    """
    with SnsStandIn.start(any_endpoint=True) as sns, tempfile.TemporaryDirectory() as folder:
        sns.limit(per_s=per_s)
        until = time.time() + WARM_UP_S + seconds
        quota = None if share is None else share * per_s / functions
        environment = {**os.environ, **AWS_CREDENTIALS, "POWERTOOLS_LOG_LEVEL": "ERROR"}
        command = [sys.executable, "-m", "lab.benchmarks.rate_limiter", "--worker", sns.url]
        outs = [Path(folder, str(number)) for number in range(functions)]
        running = [
            subprocess.Popen([*command, str(number), str(until), str(quota)], stdout=out.open("w"), env=environment)
            for number, out in enumerate(outs)
        ]
        if any(each.wait(seconds + WARM_UP_S + 90) for each in running):
            raise SystemExit("a function ended in an error")
        became = sum((Counter(json.loads(out.read_text())) for out in outs), Counter[str]())
        taken = sum(until - seconds <= each.time < until for each in sns.received())
        counts = sns.counts()
    return {
        "quota each": quota,
        "used": taken / (per_s * seconds),
        "throttled": sum(counts.refused.values()) / counts.calls,
        "became": became,
    }


def main() -> int:
    """Print a table. Return 1 if a case used less than TARGET of the quota or a recipient failed."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.rate_limiter", description=__doc__)
    parser.add_argument("--per-s", type=float, default=300.0, help="calls a second that the provider accepts in total")
    parser.add_argument("--functions", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20.0, help="that are looked at, after the warm-up")
    parser.add_argument("--worker", nargs=4, metavar=("URL", "NUMBER", "UNTIL", "QUOTA"), help="one function, here")
    arguments = parser.parse_args()
    if arguments.worker:
        url, number, until, quota = arguments.worker
        print(json.dumps(work(url, int(number), float(until), None if quota == "None" else float(quota))))
        return 0
    table = Table("share believed (a second)", "used of allowed", "calls throttled", "sent", "waits", "failed", "again")
    ok = True
    for share in (None, 0.5, 1.0, 3.0):
        case = measure(per_s=arguments.per_s, functions=arguments.functions, seconds=arguments.seconds, share=share)
        became = case["became"]
        failed = sum(became[status] for status in became if status not in ("sent", "sending", "records again"))
        ok = ok and case["used"] >= TARGET and failed == 0
        table.add_row(
            "nothing known" if case["quota each"] is None else f"{case['quota each']:,.0f} each",
            f"{case['used']:.1%}",
            f"{case['throttled']:.1%}",
            f"{became['sent']:,}",
            f"{became['sending']:,}",
            f"{failed:,}",
            f"{became['records again']:,}",
        )
    Console().print(table)
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
