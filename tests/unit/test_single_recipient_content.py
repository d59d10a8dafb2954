"""Two contents under one send_id for the same single user: the one that came first is delivered, and the other one is
dead-lettered. Nothing else about a send is ever taken for another content.
"""

import random
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.provider_errors import Transient
from masscomm.domain.records import SendRequested
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.users import Template, User, UserSettings
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, SEND_ID, results_of, send
from tests.support.harness.whole_chain import ThreeSteps, WholeChain

SENT = ("sent", None)
_BODIES = ("first", "second", "one", "two")
FIRST = send([1], data={"title": "Hello", "body": "first"})
ANOTHER_CONTENT = "the send_id has another content, which was accepted first for the same recipients"


def _chain() -> ThreeSteps:
    chain = ThreeSteps()
    chain.directory.put(*(UserSettings(user_id=user_id) for user_id in (1, 2, 3)))
    return chain


def _bodies(chain: ThreeSteps) -> list[str]:
    return [word for push in chain.push.published for word in _BODIES if word in push.message]


@pytest.mark.guarantee("send_ids.one_content_of_a_single_user")
@pytest.mark.kills(guard="sends.record_of_another_send")
@pytest.mark.parametrize(
    "other",
    [
        {"data": {"title": "Hello", "body": "second"}},
        {"recipient_data": {"0": {"body": "second"}}},
        {"type": "offer"},
        {"reference": "r"},
        {"collapse_key": "c"},
        {"push": '{"badge":1}'},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_content_for_a_single_user_is_a_dead_letter(other: dict[str, Any]) -> None:
    chain = _chain()
    for each in (FIRST, replace(FIRST, **other), FIRST):
        assert chain.drive(each, topics.SEND_MONOLITH) == []
    assert _bodies(chain) == ["first"]
    letters = chain.dead_letters()
    assert {(letter["masscomm.reason"], letter["masscomm.error"]) for letter in letters} == {
        ("invalid", ANOTHER_CONTENT)
    }
    assert {outcome.record_id for outcome in chain.outcomes()} == {chain.outcomes()[0].record_id}
    assert {result.status for outcome in chain.outcomes() for result in outcome.results} == {"sent"}


def test_two_contents_in_one_batch_are_one_delivery() -> None:
    chain = _chain()
    sends = [chain.encoded(each, topics.SEND_MONOLITH, offset=n) for n, each in enumerate((FIRST, _other(), FIRST))]
    assert chain.run(chain.checker, *sends) == []
    assert chain.run(chain.builder, *chain.entries(topics.BUILD)) == []
    assert chain.run(chain.use_case, *chain.entries(topics.DELIVERY)) == []
    assert (_bodies(chain), len(chain.dead_letters())) == (["first"], 1)


def test_another_user_with_another_content_has_an_outcome() -> None:
    chain = _chain()
    for each in (FIRST, replace(_other(), to_users=[2])):
        assert chain.drive(each, topics.SEND_MONOLITH) == []
    outcomes = {outcome.record_id: outcome for outcome in chain.outcomes()}
    assert results_of(outcomes.values()) == {(1, "push"): SENT, (2, "push"): ("failed", "dead_letter")}


# --- the same content ---


def test_a_repeated_chunk_with_other_times_is_accepted() -> None:
    chain = _chain()
    first = replace(FIRST, expires_at=NOW + 60_000)
    for each in (first, replace(first, timestamp=NOW + 1, expires_at=NOW + 61_000, priority="bulk")):
        assert chain.drive(each, topics.SEND_MONOLITH) == []
    assert (_bodies(chain), chain.dead_letters()) == (["first"], [])


def test_changes_in_the_directory_are_no_other_content() -> None:
    """The content is that of the request, not the rendered text, the user or the devices."""
    chain = _chain()
    plain = send([1], template="welcome")
    chain.directory.put(_template("one"))
    assert chain.drive(plain, topics.SEND_MONOLITH) == []
    chain.directory.put(_template("two"), User(user_id=1, club_id=7, first_name="Eve"))
    chain.put_device(9, 1)
    chain.clock.advance(3_600)
    assert chain.drive(plain, topics.SEND_MONOLITH) == []
    assert (_bodies(chain), chain.dead_letters()) == (["one"], [])


def test_a_delayed_recipient_keeps_the_content() -> None:
    """A busy provider and a pause of the send delay the recipient."""
    chain = _chain()
    chain.push.fail = lambda _: Transient("throttled", throttled=True)
    assert chain.drive(FIRST, topics.SEND_MONOLITH) == []
    chain.push.fail = lambda _: None
    assert chain.release() == []
    chain.register.control(SendControl(send=SendKey(7, SEND_ID), paused_at_ms=NOW))
    assert chain.drive(FIRST, topics.SEND_MONOLITH) == []
    assert (_bodies(chain), chain.dead_letters()) == (["first"], [])


@pytest.mark.parametrize("seed", range(25))
def test_a_single_user_under_faults_is_never_refused(seed: int) -> None:
    """Functions are killed, and settings, users, templates, pauses and cancellation change between redeliveries."""
    rng = random.Random(seed)  # noqa: S311
    chain = WholeChain(rng, growing=True, cancelling=seed % 2 == 0, pausing=True)
    record = send([rng.randint(1, 12)], channels=["push", "email"], data={"title": "Hello", "body": "first"})
    known: dict[str, int] = dict.fromkeys((topics.RECHECK, topics.BUILD, topics.DELIVERY), 0)
    for _ in range(4):
        chain.step(chain.checker, [chain.encoded(record, topics.SEND_MONOLITH)])
        for topic, use_case in (
            (topics.RECHECK, chain.checker),
            (topics.BUILD, chain.builder),
            (topics.DELIVERY, chain.use_case),
        ):
            found = chain.consume(topic)
            again = rng.sample(found[: known[topic]], min(1, known[topic]))
            chain.step(use_case, [*found[known[topic] :], *again])
            known[topic] = len(found)
    assert chain.dead_letters() == []


def _other() -> SendRequested:
    return replace(FIRST, data={"title": "Hello", "body": "second"})


def _template(body: str) -> Template:
    return Template(template_id=1, club_id=None, type="welcome", channel="push", locale="en", title="Hello", body=body)
