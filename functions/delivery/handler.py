"""The delivery function: it consumes rendered messages, calls the providers, and produces an outcome for every
recipient.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any
from uuid import uuid4

from functions.delivery.deliver import Deliver
from functions.delivery.publish import UNRECORDED
from functions.delivery.quiet_hours_recheck import RECHECK_AFTER_S
from functions.delivery.retry_scheduler import RetryScheduler
from masscomm import environment
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, batch_driver, retry_schedule
from masscomm.chain.email_pauses import EmailPauses
from masscomm.chain.sms_spending import SmsSpending
from masscomm.channels.circuit_breaker import PushCircuitBreaker
from masscomm.channels.provider_calls import Caller
from masscomm.channels.rate_limiter import RateLimiter
from masscomm.channels.senders import senders_of
from masscomm.channels.unsubscribe_links import UnsubscribeLinks
from masscomm.clock import Clock, SystemClock
from masscomm.directory.chosen import directory_from_environment
from masscomm.domain.channels import CHANNELS
from masscomm.domain.email_settings import email_table
from masscomm.domain.lanes import Lane
from masscomm.domain.sms_settings import sms_table
from masscomm.domain.time_limits import OUTAGE_TIMEOUT_S
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger
from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage
from masscomm.stores.sends.dynamodb import DynamoDbSends

logger = logs.logger("delivery")


# The number of threads for concurrent requests to the directory and the delivery ledger.
_THREADS = 8


@cache
def bootstrap() -> tuple[BatchDriver, Deliver]:
    from masscomm.channels.aws_sms import AwsSms
    from masscomm.channels.gateway import WORKERS, ProviderGateway
    from masscomm.channels.ses_email import SesEmail
    from masscomm.channels.sns_push import SnsPush

    clock, sends = SystemClock(), DynamoDbSends.from_environment()
    environment.required("SES_SENDER")
    sms_table()  # A file that is not valid stops the function before it takes a record.
    use_case = Deliver(
        directory=directory_from_environment(),
        sends=sends,
        ledger=DynamoDbDeliveryLedger(
            table=os.environ.get("DELIVERY_LEDGER_TABLE", "delivery_ledger"), owner=str(uuid4()), clock=clock
        ),
        gateway=ProviderGateway(
            clock=clock,
            rate_limiters=_rate_limiters(clock),
            workers=environment.whole_number("DELIVERY_WORKERS", WORKERS, lowest=1),
            outage_timeout_s=environment.number("DELIVERY_PATIENCE_S", OUTAGE_TIMEOUT_S),
        ),
        caller=Caller(
            senders=senders_of(
                push=PushCircuitBreaker(SnsPush(), clock=clock),
                email=SesEmail(),
                sms=AwsSms(),
                emails=email_table(),
                unsubscribe=UnsubscribeLinks.from_environment(clock),
            ),
            clock=clock,
        ),
        spending=SmsSpending(store=DynamoDbKeyUsage.from_environment(), clock=clock),
        retry_scheduler=RetryScheduler(
            store=DynamoDbDelayStore.from_environment(), retry_schedule=retry_schedule(), clock=clock
        ),
        pauses=EmailPauses(sends=sends, audit_log=DynamoDbAuditLog.from_environment(), clock=clock, logger=logger),
        clock=clock,
        pool=ThreadPoolExecutor(_THREADS),
        unrecorded=environment.whole_number("DELIVERY_UNRECORDED", UNRECORDED, lowest=1),
        late_after_s=environment.number("QUIET_HOURS_AGAIN_AFTER_S", RECHECK_AFTER_S),
    )
    return batch_driver("delivery", logger, has_categories=True), use_case


def _rate_limiters(clock: Clock) -> dict[str, RateLimiter]:
    """Return the rate limiter of each channel: this environment's share of the account's quota. The share of the
    critical lane is reserved for it.
    """
    shares = {name: environment.number(channel.rate_setting, 0) or None for name, channel in CHANNELS.items()}
    critical = environment.lane() is Lane.CRITICAL
    return {
        channel: RateLimiter(clock, per_s=per_s, floor_per_s=per_s if critical and per_s else 1.0)
        for channel, per_s in shares.items()
    }


@observed(logger, ahead=(*ON_KAFKA, "masscomm.channels.sns_push"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event and return a partial batch response."""
    return answer(bootstrap, event, context, logger)
