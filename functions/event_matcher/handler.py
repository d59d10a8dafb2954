"""The event_matcher function: it finds the endpoints that subscribe to an event, and produces the messages for them. By
rules, it turns events into sends.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, batch_driver
from masscomm.clock import SystemClock
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed

if TYPE_CHECKING:
    from functions.event_matcher.match_events import MatchEvents

logger = logs.logger("event_matcher")


@cache
def bootstrap() -> "tuple[BatchDriver, MatchEvents]":
    from functions.event_matcher.match_events import MatchEvents
    from functions.event_matcher.notify import Notify, RefusalStore, RuleOwners
    from masscomm.chain.subscription_topic import SubscriptionTopic
    from masscomm.stores.api_keys.dynamodb import ApiKeys
    from masscomm.stores.event_types.checks import KnownTypes
    from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
    from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage
    from masscomm.stores.subscriptions.dynamodb import DynamoDbSubscriptions

    driver, clock = batch_driver("event_matcher", logger, endless=True, has_categories=True), SystemClock()
    return driver, MatchEvents(
        subscriptions=SubscriptionTopic.from_environment(driver.codec),
        types=KnownTypes(store=DynamoDbEventTypes.from_environment(), clock=clock),
        notify=Notify(
            owners=RuleOwners(keys=ApiKeys.from_environment(), clock=clock),
            usage=DynamoDbKeyUsage.from_environment(),
            refusals=RefusalStore(subscriptions=DynamoDbSubscriptions.from_environment(), clock=clock),
            clock=clock,
        ),
        clock=clock,
    )


@observed(logger, ahead=(*ON_KAFKA, "functions.event_matcher.match_events"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event and return a partial batch response."""
    return answer(bootstrap, event, context, logger)
