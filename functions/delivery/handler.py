"""delivery: written messages in, provider calls, an outcome for every recipient out."""

import os
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from functions.delivery.deliver import Deliver
from functions.delivery.publishing import Publisher
from masscomm import settings
from masscomm.batch import BatchDriver, LambdaContext
from masscomm.bootstrap import batch_driver
from masscomm.channels.aws import SesEmail, SnsPush
from masscomm.clock import SystemClock
from masscomm.opensearch_directory import OpenSearchDirectory

logger = Logger()


@cache
def bootstrap() -> tuple[BatchDriver, Deliver]:
    """The adapters, built at the first invocation and kept."""
    sender, clock = settings.required("SES_SENDER"), SystemClock()
    workers = int(settings.number("DELIVERY_WORKERS", 16))
    use_case = Deliver(
        directory=OpenSearchDirectory.from_environment(),
        push=SnsPush(connections=workers),
        email=SesEmail(sender=sender, connections=workers),
        publisher=Publisher(clock=clock, workers=workers),
        clock=clock,
        sender=sender,
        unsubscribe_url=os.environ.get("UNSUBSCRIBE_URL"),
    )
    return batch_driver("delivery", logger), use_case


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an aws:kafka event to a partial batch response."""
    driver, use_case = bootstrap()
    return driver.run(event, context, use_case)
