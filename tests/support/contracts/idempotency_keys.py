"""The tests that every store of idempotency keys must pass, in memory and real."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from masscomm.domain.time_limits import IDEMPOTENCY_KEPT_S
from masscomm.errors import DeadLetter, Retry
from masscomm.stores.idempotency_keys.port import Claim, IdempotencyKeys, claim_id

NOW = 1_700_000_000_500
LATER = NOW + 29_000
RESPONSE = '{"send_id": "s"}'


def claim(owner: str = "a", *, key: str = "k", now_ms: int = NOW, request: str = "r", send_id: str = "s") -> Claim:
    """Return a claim whose attempt ends 29 s after it begins."""
    return Claim(
        id=claim_id(7, key, is_test=False),
        request=request,
        send_id=send_id,
        requested_at_ms=now_ms,
        chunk_size=5_000,
        owner=owner,
        until_ms=now_ms + 29_000,
    )


class IdempotencyKeysContract:
    """Subclasses define the fixture `keys`, an empty store."""

    def test_first_claim_of_a_key_wins(self, keys: IdempotencyKeys) -> None:
        first = claim()
        assert keys.find(first.id, now_ms=NOW) is None
        assert keys.claim(first, now_ms=NOW) == first
        assert keys.claim(claim("b", request="other", send_id="t"), now_ms=NOW) == first
        assert keys.find(first.id, now_ms=NOW) == first

    def test_keys_are_apart(self, keys: IdempotencyKeys) -> None:
        for each in (claim(), claim("b", key="l", send_id="t")):
            assert keys.claim(each, now_ms=NOW) == each

    def test_calls_repeated_by_an_owner_succeed(self, keys: IdempotencyKeys) -> None:
        """A client may repeat a call whose response was lost."""
        first = claim()
        assert [keys.claim(first, now_ms=NOW) for _ in range(2)] == [first] * 2
        taken = replace(first, owner="b", until_ms=LATER)
        assert [keys.take_over(first, owner="b", until_ms=LATER) for _ in range(2)] == [taken] * 2
        for _ in range(2):
            keys.complete(taken, RESPONSE)
        assert keys.find(first.id, now_ms=NOW) == replace(taken, response=RESPONSE)

    def test_a_completed_claim_is_not_taken_over(self, keys: IdempotencyKeys) -> None:
        first = keys.claim(claim(), now_ms=NOW)
        keys.complete(first, RESPONSE)
        completed = replace(first, response=RESPONSE)
        assert keys.take_over(first, owner="b", until_ms=LATER) == completed
        assert keys.claim(claim("c"), now_ms=NOW) == completed

    def test_a_released_claim_keeps_its_send(self, keys: IdempotencyKeys) -> None:
        first = keys.claim(claim(), now_ms=NOW)
        keys.release(first)
        assert keys.claim(claim("b", send_id="t"), now_ms=NOW) == replace(first, until_ms=0)

    def test_a_freed_key_is_claimed_by_another_request(self, keys: IdempotencyKeys) -> None:
        first = keys.claim(claim(), now_ms=NOW)
        keys.free(first)
        assert keys.find(first.id, now_ms=NOW) is None
        second = claim("b", request="other", send_id="t")
        assert keys.claim(second, now_ms=NOW) == second
        keys.free(first)
        assert keys.find(first.id, now_ms=NOW) == second

    @pytest.mark.kills(guard="idempotency.owner")
    def test_a_previous_owner_changes_nothing(self, keys: IdempotencyKeys) -> None:
        """A frozen environment may continue after its time-out, when another attempt has taken over its claim."""
        first = keys.claim(claim(), now_ms=NOW)
        taken = keys.take_over(first, owner="b", until_ms=LATER)
        keys.complete(first, "late")
        keys.release(first)
        assert keys.find(first.id, now_ms=NOW) == taken

    @pytest.mark.guarantee("idempotency.key_is_free_after_a_day")
    @pytest.mark.kills(guard="idempotency.expired_claim")
    def test_a_key_is_free_after_a_day(self, keys: IdempotencyKeys) -> None:
        """DynamoDB deletes an expired item within days; until then the item is in the table and must be ignored.

        Source: AWS documentation, "Working with expired items and time to live".
        """
        first = keys.claim(claim(), now_ms=NOW)
        keys.complete(first, RESPONSE)
        day = NOW + IDEMPOTENCY_KEPT_S * 1000
        second = claim("b", now_ms=day + 1_000, send_id="t")
        assert keys.claim(second, now_ms=day).send_id == "s"
        assert keys.find(first.id, now_ms=day) is not None
        assert keys.find(first.id, now_ms=day + 1_000) is None
        assert keys.claim(second, now_ms=day + 1_000) == second
        assert keys.find(first.id, now_ms=day + 1_000) == second

    def test_a_claim_that_is_not_stored_is_not_taken_over(self, keys: IdempotencyKeys) -> None:
        first = claim()
        with pytest.raises(Retry):
            keys.take_over(first, owner="b", until_ms=LATER)
        keys.complete(first, RESPONSE)
        keys.release(first)
        assert keys.find(first.id, now_ms=NOW) is None

    @pytest.mark.parametrize("id_", ["", "i" * 2049], ids=["empty", "long"])
    def test_an_id_that_is_no_key_is_refused(self, keys: IdempotencyKeys, id_: str) -> None:
        with pytest.raises(DeadLetter):
            keys.claim(replace(claim(), id=id_), now_ms=NOW)

    def test_a_response_larger_than_an_item_is_refused(self, keys: IdempotencyKeys) -> None:
        first = keys.claim(claim(), now_ms=NOW)
        with pytest.raises(DeadLetter):
            keys.complete(first, "x" * 410_000)
        assert keys.find(first.id, now_ms=NOW) == first


class ConcurrentIdempotencyKeysContract:
    """Tests of concurrent claims. moto cannot pass them, because its writes are not atomic across threads.

    Subclasses define the fixture `keys`, an empty store.
    """

    def test_one_of_concurrent_claims_wins(self, keys: IdempotencyKeys) -> None:
        together = Barrier(8, timeout=30)

        def request(number: int) -> Claim:
            together.wait()
            return keys.claim(claim(f"o{number}", send_id=f"s{number}"), now_ms=NOW)

        with ThreadPoolExecutor(8) as environments:
            assert len(set(environments.map(request, range(8)))) == 1

    def test_one_of_concurrent_attempts_takes_over(self, keys: IdempotencyKeys) -> None:
        first = keys.claim(claim(), now_ms=NOW)
        together = Barrier(8, timeout=30)

        def take(number: int) -> bool:
            together.wait()
            return keys.take_over(first, owner=f"o{number}", until_ms=LATER).owner == f"o{number}"

        with ThreadPoolExecutor(8) as environments:
            assert sum(environments.map(take, range(8))) == 1
        assert keys.claim(claim("z"), now_ms=NOW).send_id == "s"
