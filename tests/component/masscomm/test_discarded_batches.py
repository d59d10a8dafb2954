"""Lambda discards a batch in on-demand mode: the local mapping writes it to S3, and the scheduler returns it."""

from uuid import uuid4

from functions.catalogue import RETRIES_WITH_DESTINATION
from functions.scheduler.return_discarded_batches import ReturnDiscardedBatches
from local.devstack.config import StackConfig
from local.devstack.service import AWS_CREDENTIALS
from local.emulators.event_source import Pollers
from local.emulators.event_source.s3 import S3Destination, s3_client
from local.emulators.event_source.spec import S3_ARN
from masscomm.kafka import topics
from masscomm.observability import logs
from masscomm.stores.discarded_batches.s3 import S3DiscardedBatches
from tests.support.harness.chain import build, entry
from tests.support.harness.event_source import BROKEN, Function, broker, running
from tests.support.harness.reschedule_records import Rescheduler


async def test_discarded_batch_is_rescheduled_from_s3(localstack: StackConfig) -> None:
    client, bucket = s3_client(AWS_CREDENTIALS | {"AWS_ENDPOINT_URL": localstack.aws_url}), f"discarded-{uuid4()}"
    client.create_bucket(Bucket=bucket)
    scheduler, made = Rescheduler(), broker()
    made.create_topic(topics.BUILD, 1)
    for user_id in range(3):
        record = build([user_id], send_id=str(uuid4()))
        made.produce(topics.BUILD, scheduler.codec.encode(topics.BUILD, "BuildRequested", record.to_avro()))
    function = Function(lambda _: BROKEN)
    async with running(
        function,
        made,
        destination=S3Destination(client),
        topics=(topics.BUILD,),
        pollers=Pollers.ON_DEMAND,
        on_failure=f"{S3_ARN}{bucket}",
    ) as bench:
        await bench.until_committed(3, topic=topics.BUILD)
    assert len(function.batches) == 1 + RETRIES_WITH_DESTINATION
    batches = S3DiscardedBatches(client, bucket)
    ReturnDiscardedBatches(
        batches=batches, producer=scheduler.producer, clock=scheduler.clock, logger=logs.logger("scheduler")
    ).sweep(lambda: 60.0)
    assert list(batches.keys()) == []
    values = scheduler.values(topics.ON_FAILURE)
    scheduler.run(scheduler.use_case, *(entry(value, topic=topics.ON_FAILURE) for value in values))
    assert len(scheduler.store.items) == 3
