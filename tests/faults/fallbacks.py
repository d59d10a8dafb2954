"""Faults while fallbacks are decided about: e-mails that follow pushes if these are not sent within a minute."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

from local.emulators.sns_stand_in import Rule
from masscomm.domain.statuses import Reason, Status
from masscomm.kafka import topics
from tests.faults.moments import dynamodb
from tests.support.fault_stack.bench import Bench, Sent, sources
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.population import CATEGORIES
from tests.support.fault_stack.proxy import Hold, HoldAnswer, Request, produce_to
from tests.support.fault_stack.proxy.faults import Fault
from tests.support.until import until

type Moment = Callable[[], AbstractContextManager[Fault]]

FALLBACKS = '[{"channel":"email","if":"not_sent","after":"1m"}]'
# A template with both channels.
TEMPLATE = "security_alert"
# The last digits of such users (tests.support.fault_stack.population).
OPTED_OUT_OF_PUSHES, WITHOUT_SETTINGS = 1, 3
# The minute of the wait, and the sweeps of the scheduler.
RELEASED_S = 150.0


def checker_killed(bench: Bench, _: Send) -> None:
    """Kill preference_checker before and after it lets e-mails wait, before and after it stores its decisions about
    them, and before and after it produces the e-mails that replace the pushes of an outage. Each user gets one of both.
    """
    kafka, store = bench.stack.kafka, bench.stack.dynamodb
    waits: list[Moment] = [
        lambda: store.fault(Hold(), when=dynamodb("waiting", "PutItem")),
        lambda: store.fault(HoldAnswer(), when=dynamodb("waiting", "PutItem")),
        lambda: kafka.fault(Hold(), when=_produces(topics.BUILD)),
    ]
    _killed_at(bench, "preference_checker", waits, lambda: _emit(bench, _settled(bench.shared[:50])))
    pushed, not_needed = bench.sends
    until("the pushes are sent", lambda: bench.ended(pushed), bench.timeout_s)
    bench.stack.sns.answer(Rule(code="reset_before"))
    delayed, email = _emit(bench, _settled(bench.shared[50:100]))
    _replaced(delayed, email)
    until(
        "the pushes wait for SNS",
        lambda: bench.outcomes.rules(delayed.send_id, Status.SENDING).keys() >= delayed.calls.keys(),
        bench.timeout_s,
    )
    until("receipts has the ends of pushes", lambda: bench.at_rest(sources("receipts")), bench.timeout_s, every_s=0.1)
    # Both records are released when the decisions about the second one are stored: recheck gets no further ones of the
    # scheduler.
    decisions: list[Moment] = [
        lambda: store.fault(Hold(), when=_stores_state(pushed)),
        lambda: store.fault(HoldAnswer(), when=_stores_state(pushed)),
        lambda: store.fault(Hold(), when=_stores_state(delayed)),
        lambda: store.fault(HoldAnswer(), when=_stores_state(delayed)),
        lambda: kafka.fault(Hold(), when=_produces(topics.RECHECK)),
        lambda: kafka.fault(HoldAnswer(), when=_produces(topics.RECHECK)),
    ]
    _killed_at(bench, "preference_checker", decisions, lambda: None)
    until("the e-mails are sent", lambda: all(map(bench.ended, (not_needed, email))), RELEASED_S)
    bench.stack.sns.clear()


def receipts_killed(bench: Bench, _: Send) -> None:
    """Kill receipts before and after it stores the ends of pushes, and before and after it produces the e-mails of
    users without a device. Each user gets one of both.
    """
    kafka, store = bench.stack.kafka, bench.stack.dynamodb
    moments: list[Moment] = [
        lambda: store.fault(Hold(), when=_stores_state()),
        lambda: store.fault(HoldAnswer(), when=_stores_state()),
        lambda: kafka.fault(Hold(), when=_produces(topics.RECHECK)),
        lambda: kafka.fault(HoldAnswer(), when=_produces(topics.RECHECK)),
    ]
    # preference_checker produces the e-mails of users who have opted out of pushes to recheck, too.
    users = [user for user in _settled(bench.shared[:100]) if user % 10 != OPTED_OUT_OF_PUSHES]
    _killed_at(bench, "receipts", moments, lambda: _emit(bench, users))
    until("all have ended", lambda: all(map(bench.ended, bench.sends)), RELEASED_S)


def _settled(users: Sequence[int]) -> list[int]:
    """Return users with settings: those without are decided about later, in a record that the scheduler releases."""
    return [user for user in users if user % 10 != WITHOUT_SETTINGS]


def _emit(bench: Bench, users: Sequence[int]) -> tuple[Sent, Sent]:
    """Send a push with an e-mail as its fallback. Return what is expected of both."""
    push = bench.emit(users, channels=["push", "email"], fallbacks=FALLBACKS, template=TEMPLATE)
    email = bench.expect_send(push.send_id, users, channel="email", category=CATEGORIES["push"])
    email.fates |= {user: frozenset({"not_needed"}) for user in push.calls}
    return push, email


def _replaced(push: Sent, email: Sent) -> None:
    """Expect the e-mails in the place of the pushes that would be sent."""
    for user in push.calls:
        push.fates[user], email.fates[user] = frozenset({Reason.REPLACED.value}), frozenset({"sent"})


def _killed_at(bench: Bench, function: str, moments: Sequence[Moment], request: Callable[[], object]) -> None:
    """Request a send, and kill a function at each of these moments."""
    with ExitStack() as faults:
        held = faults.enter_context(moments[0]())
        request()
        for following in [*moments[1:], None]:
            held.await_hits(timeout_s=RELEASED_S)
            begun = None if following is None else faults.enter_context(following())
            bench.kill(function)
            held.discard()
            held = begun or held


def _stores_state(sent: Sent | None = None) -> Callable[[Request], bool]:
    """Return a condition that is true for requests that store the state of fallbacks, or of those of a send."""
    name = (b'"' if sent is None else f'"{sent.send_id}"'.encode(), b'"fallback#')
    puts = dynamodb("sends", "PutItem")
    return lambda request: puts(request) and all(each in request.body for each in name)


def _produces(topic: str) -> Callable[[Request], bool]:
    """Return a condition that is true for produce requests to a topic in any lane."""
    found = [produce_to(each.name) for each in topics.chain_topics() if topics.base_of(each.name) == topic]
    return lambda request: any(each(request) for each in found)
