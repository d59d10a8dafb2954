"""Faults of SNS and SES while a cell's send is under way."""

import json
import time
from collections.abc import Sequence

import httpx

from local.emulators.sns_stand_in import Rule
from masscomm.directory.device_states import state_in
from masscomm.domain.ids import address_id
from tests.faults.moments import (
    DELIVERY,
    HALF_A_SLICE,
    INSIDE_A_SLICE,
)
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import FaultOf, Send
from tests.support.fault_stack.population import address
from tests.support.fault_stack.proxy import Answer, DropAnswer, HoldAnswer, Request
from tests.support.fault_stack.stack import WORKERS
from tests.support.until import until


def sns_answers(code: str, *, share: float = 1.0, times: int | None = None) -> FaultOf:
    """SNS answers some publishes with an error code, after half a slice."""

    def fault(bench: Bench, send: Send) -> None:
        bench.stack.sns.answer(Rule(code=code, share=share, times=times, after=HALF_A_SLICE))
        send()
        bench.settle()

    return fault


def sns_throttles(bench: Bench, send: Send) -> None:
    """SNS allows only a fraction of the rate at which delivery publishes."""
    before = bench.stack.sns.counts()
    bench.stack.sns.limit(per_s=60, burst=10)
    send()
    bench.settle()
    after = bench.stack.sns.counts()
    refused = after.refused.get("Throttling", 0) - before.refused.get("Throttling", 0)
    accepted = after.accepted - before.accepted
    assert refused <= accepted, f"{refused} calls refused for {accepted} accepted: delivery did not slow down"


def application_off(bench: Bench, send: Send) -> None:
    """A platform application is disabled until an operator acts: calls to it stop; the other application continues."""
    bench.stack.sns.answer(Rule(code="PlatformApplicationDisabled", endpoint="/GCM/"))
    before = bench.stack.sns.counts().refused.get("PlatformApplicationDisabled", 0)
    records = bench.records(*DELIVERY)
    send()
    until("its recipients are delayed and released", lambda: bench.records(*DELIVERY) >= records + 2, every_s=0.1)
    refused = bench.stack.sns.counts().refused["PlatformApplicationDisabled"] - before
    assert refused <= 2 * WORKERS, f"{refused} calls of a disabled platform application"
    bench.stack.sns.clear()


def sns_refuses_endpoints(code: str) -> FaultOf:
    """SNS rejects some endpoints permanently; afterwards their devices are inactive."""

    def fault(bench: Bench, send: Send) -> None:
        users = sorted(bench.refused_users)
        rules = [Rule(code=code, endpoint=arn) for user_id in users for arn in bench.population.endpoints[user_id]]
        bench.stack.sns.answer(*rules)
        send()
        bench.settle()
        calls = bench.stack.sns.counts().calls
        bench.stack.sns.clear()
        until("the devices are inactive", lambda: _inactive(bench, users))
        # The next send must not call an inactive device, although the provider would accept the message.
        bench.emit(users, refused_users=set(users))
        bench.settle()
        assert bench.stack.sns.counts().calls == calls, "a rejected endpoint was called again"

    return fault


def one_of_two_disabled(bench: Bench, send: Send) -> None:
    """One of a user's two devices is disabled: the other device gets this message and all later ones."""
    send()
    bench.settle()
    endpoints = bench.population.endpoints
    users = [user_id for user_id in bench.sends[0].fates if len(endpoints.get(user_id, [])) == 2]
    dead = {user_id: next(arn for arn in endpoints[user_id] if "/APNS/" in arn) for user_id in users}
    bench.stack.sns.answer(*(Rule(code="EndpointDisabled", endpoint=arn) for arn in dead.values()))
    for _ in range(2):
        sent = bench.emit(users)
        sent.calls = {
            user_id: [pair for pair in pairs if pair[1] != dead[user_id]] for user_id, pairs in sent.calls.items()
        }
        bench.settle()
        until("the devices are inactive", lambda: disabled(bench, [user_id * 10 + 1 for user_id in users]))
        # The provider would accept a message to the disabled device, but delivery must not call it.
        bench.stack.sns.clear()


def expires(bench: Bench, send: Send) -> None:
    """The provider accepts nothing until the send has expired: nothing is published after that."""
    bench.stack.sns.answer(Rule(code="reset_before"))
    expires_at = time.time_ns() // 1_000_000 + 4_000
    sent = bench.emit(bench.shared[:200], expires_at=expires_at)
    expired = frozenset({"expired"})
    sent.fates = {user: expired if fate == {"sent"} else fate for user, fate in sent.fates.items()}
    until("expires_at", lambda: time.time_ns() // 1_000_000 > expires_at, every_s=0.1)
    bench.stack.sns.clear()


def sns_outage(bench: Bench, send: Send) -> None:
    """Cut every connection to SNS until the remaining recipients have been delayed, released and delayed again."""
    before = bench.records(*DELIVERY)
    bench.stack.sns.answer(Rule(code="reset_before"))
    send()
    until("a record is released twice", lambda: bench.records(*DELIVERY) >= before + 3, 120, every_s=0.2)


def _mail(request: Request) -> bool:
    return request.operation.startswith("POST /v2/email/outbound-emails")


def _ses_error(status: int, code: str, message: str) -> Answer:
    return Answer(status=status, body=json.dumps({"__type": code, "message": message}).encode())


def killed_mailing(bench: Bench, send: Send) -> None:
    """Kill delivery when some slices are recorded, SES has a part of the next, and calls are unanswered."""
    with bench.stack.mail.fault(HoldAnswer(), when=_mail, after=INSIDE_A_SLICE) as held:
        send()
        held.await_hits(HALF_A_SLICE // 2)
        bench.kill("delivery")
        held.discard()


def ses_answers(status: int, code: str, message: str, *, times: int) -> FaultOf:
    """SES answers some messages with an error, after half a slice."""

    def fault(bench: Bench, send: Send) -> None:
        with bench.stack.mail.fault(
            _ses_error(status, code, message), when=_mail, after=HALF_A_SLICE, times=times
        ) as refused:
            send()
            refused.await_hits(times)
            bench.settle()

    return fault


def ses_answers_lost(bench: Bench, send: Send) -> None:
    """SES accepts some messages, and the connection is cut before its response."""
    with bench.stack.mail.fault(DropAnswer(), when=_mail, after=HALF_A_SLICE, times=5) as lost:
        send()
        lost.await_hits(5)
        bench.settle()


def ses_rejects(bench: Bench, _: Send) -> None:
    """SES rejects the messages to some addresses permanently: only these recipients fail."""
    users = list(bench.shared[:100])
    rejected = users[10:13]
    names = [json.dumps(address(user_id)).encode() for user_id in rejected]
    error = _ses_error(400, "MessageRejected", "Email address is not allowed.")

    def concerned(request: Request) -> bool:
        return _mail(request) and any(name in request.body for name in names)

    with bench.stack.mail.fault(error, when=concerned):
        sent = bench.emit(users, channel="email")
        sent.fates |= {user_id: frozenset({"provider_rejected"}) for user_id in rejected}
        for user_id in rejected:
            del sent.calls[user_id]
        bench.settle()


def suppressed_address(bench: Bench, _: Send) -> None:
    """Nothing is sent to an address with an earlier permanent bounce."""
    [user_id, *others] = bench.population.grow(10)
    document = {"reason": "bounced_permanent", "at": 1}
    url = f"{bench.stack.config.opensearch_url}/suppressions/_doc/{address_id(address(user_id))}?refresh=true"
    httpx.put(url, json=document, trust_env=False).raise_for_status()
    sent = bench.emit([user_id, *others], channel="email")
    sent.fates[user_id] = frozenset({"address_suppressed"})
    del sent.calls[user_id]


def _inactive(bench: Bench, users: Sequence[int]) -> bool:
    """Return whether every device of these users has the state disabled."""
    devices = [user_id * 10 + place for user_id in users for place in range(len(bench.population.endpoints[user_id]))]
    return disabled(bench, devices)


def disabled(bench: Bench, devices: Sequence[int]) -> bool:
    """Return whether each of these devices has the state disabled."""
    url = f"{bench.stack.config.opensearch_url}/device_state/_mget"
    answer = httpx.post(url, json={"ids": [str(device) for device in devices]}, trust_env=False).raise_for_status()
    generation = bench.population.generation
    return not any(state_in(document["_source"], generation)["enabled"] for document in answer.json()["docs"])
