"""A record kills the process of its function, among good records of its batch, in on-demand mode: real processes and
DynamoDB, and the local event source mapping.
"""

import asyncio
import json
from pathlib import Path

import pytest

from functions.catalogue import RETRIES_ON_DEMAND
from local.devstack.config import StackConfig
from local.devstack.service import AWS_CREDENTIALS
from local.emulators.event_source import Pollers
from local.emulators.local import REGION
from masscomm.kafka import topics
from masscomm.kafka.event import parse
from tests.support.harness.chain import Chain, send
from tests.support.harness.crashing_process import CRASHING_USER, invoke, produced_records
from tests.support.harness.event_source import BROKEN, Function, FunctionResponse, broker, running
from tests.support.servers.dynamodb_table import dynamodb, new_table


@pytest.mark.guarantee("on_demand.crashing_record")
@pytest.mark.parametrize(
    ("good", "retries"), [(9, 1), pytest.param(99, RETRIES_ON_DEMAND, marks=pytest.mark.nightly)], ids=["few", "many"]
)
async def test_record_that_kills_its_process_is_handed_over(
    localstack: StackConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, good: int, retries: int
) -> None:
    settings = {**AWS_CREDENTIALS, "AWS_REGION": REGION, "AWS_ENDPOINT_URL": localstack.aws_url}
    settings["DELIVERY_LEDGER_TABLE"] = new_table(dynamodb(localstack), "delivery_ledger")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    produced, codec, made = tmp_path / "produced", Chain().codec, broker()
    made.create_topic(topics.SEND_MONOLITH, 1)
    users = [1000 + number for number in range(good)]
    users.insert(good // 2, CRASHING_USER)
    for user_id in users:
        made.produce(
            topics.SEND_MONOLITH, codec.encode(topics.SEND_MONOLITH, "SendRequested", send([user_id]).to_avro())
        )
    exits: list[int | None] = []

    class Invoked(Function):
        async def __call__(self, payload: bytes) -> FunctionResponse:
            exits.append(await asyncio.to_thread(invoke, payload, produced, retries))
            return FunctionResponse() if exits[-1] == 0 else BROKEN

    async with running(
        Invoked(),
        made,
        topics=(topics.SEND_MONOLITH,),
        batch_size=len(users),
        pollers=Pollers.ON_DEMAND,
    ) as bench:
        await bench.until_committed(len(users), topic=topics.SEND_MONOLITH)
    # The first crash is that of the whole batch; a further one is in a pass over single records.
    assert exits == [*[-9] * (retries + 2), 0]
    relayed = [int(key) for key in produced_records(produced, topics.SEND_API)]
    assert sorted(relayed) == sorted(set(users) - {CRASHING_USER}), "each good record once"
    (document,) = map(json.loads, produced_records(produced, topics.ON_FAILURE))
    assert [record.offset for record in parse(document["payload"])] == [users.index(CRASHING_USER)]
