"""The suppression list: addresses and phone numbers to which a club sends nothing, because they bounced for good, their
owner complained, or answered STOP to an SMS.

A suppression applies to one club. It expires: after 180 days for a bounced address, which may exist again, and after
730 days for a complaint. That of STOP lasts until START. Addresses are stored as SHA-256 only
(masscomm.domain.ids.address_id).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from masscomm.domain.ids import address_id
from masscomm.domain.sms_answers import Word
from masscomm.domain.statuses import Reason
from masscomm.domain.time_limits import SMS_STARTS_KEPT_S

INDEX = "suppressions"
DAY_MS = 86_400_000
# The end of a suppression that was removed. A sweep of the scheduler deletes its document.
REMOVED = 0
# The end of a suppression by STOP: the end of the year 9999.
NEVER_MS = 253_402_300_799_000
# The fields of a suppression that another one replaces.
_REPLACED = ("reason", "at", "expires_at")


@dataclass(frozen=True, kw_only=True)
class Suppression:
    """One club's suppression of an address that does not exist, or whose owner complained."""

    club_id: int
    address: str
    reason: Reason
    # The time of the provider's receipt, in ms since the epoch.
    at_ms: int
    # The time at which the suppression expires, in ms since the epoch.
    expires_ms: int

    @property
    def id(self) -> str:
        return id_of(self.club_id, self.address)

    @property
    def source(self) -> dict[str, Any]:
        return {
            "club_id": self.club_id,
            "address_id": address_id(self.address),
            "reason": self.reason.value,
            "at": self.at_ms,
            "expires_at": self.expires_ms,
        }


@dataclass(frozen=True, kw_only=True)
class Periods:
    """The days for which a suppression is in force, by its reason."""

    bounced_days: float = 180
    complained_days: float = 730

    def end_ms(self, reason: Reason, at_ms: int) -> int:
        """Return the time (ms since the epoch) at which a suppression that begins at at_ms expires."""
        days = self.complained_days if reason is Reason.COMPLAINED else self.bounced_days
        return at_ms + round(days * DAY_MS)


class NumberAnswer(NamedTuple):
    """An answer to the SMS of a club."""

    club_id: int
    # The person's number, in the form of E.164.
    number: str
    word: Word
    at_ms: int

    @property
    def id(self) -> str:
        return id_of(self.club_id, self.number)


def with_bounce(stored: Mapping[str, Any] | None, added: Suppression) -> Mapping[str, Any] | None:
    """Return the document after a bounce or a complaint; None if it stays as it is."""
    if stored is None:
        return added.source
    if is_stopped(stored) and stored["expires_at"] != REMOVED:
        known = stored.get("earlier")
        if known is not None and known["expires_at"] >= added.expires_ms:
            return None
        return {**stored, "earlier": {name: added.source[name] for name in _REPLACED}}
    if not stored.get("is_lifted") and stored["expires_at"] >= added.expires_ms:
        return None
    return {**added.source, **_answered(stored.get("answered_at"))}


def with_answer(stored: Mapping[str, Any] | None, answer: NumberAnswer) -> Mapping[str, Any] | None:
    """Return the document after an answer; None if it stays as it is, such as after a newer answer."""
    known_ms = -1 if stored is None else stored.get("answered_at", -1)
    # STOP and START of one moment: STOP applies.
    if answer.at_ms < known_ms or (answer.at_ms == known_ms and (answer.word is Word.START or is_stopped(stored))):
        return None
    own = {"club_id": answer.club_id, "address_id": address_id(answer.number), "answered_at": answer.at_ms}
    if answer.word is Word.STOP:
        stop = {"reason": Reason.OPTED_OUT.value, "at": answer.at_ms, "expires_at": NEVER_MS}
        earlier = _earlier(stored)
        return {**own, **stop, **({} if earlier is None else {"earlier": earlier})}
    earlier = _earlier(stored)  # guard: sms.start_lifts_stop
    if earlier is not None:
        return {**own, **earlier}
    # It suppresses nothing: an older STOP may still arrive.
    until_ms = answer.at_ms + SMS_STARTS_KEPT_S * 1000
    lifted = {"reason": Reason.OPTED_OUT.value, "at": answer.at_ms, "expires_at": until_ms, "is_lifted": True}
    return {**own, **lifted}


def newest_of(answer: NumberAnswer, stored: Mapping[str, Any]) -> NumberAnswer:
    """Return the newest answer of a number in the document, which has this answer or a newer one."""
    return answer._replace(word=Word.STOP if is_stopped(stored) else Word.START, at_ms=stored["answered_at"])


def is_stopped(stored: Mapping[str, Any] | None) -> bool:
    """Return whether a document suppresses a number because of STOP."""
    return stored is not None and stored.get("reason") == Reason.OPTED_OUT and not stored.get("is_lifted")


def _earlier(stored: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the suppression that STOP has not made."""
    if stored is None or stored.get("is_lifted") or stored["expires_at"] == REMOVED:
        return None
    if is_stopped(stored):
        return stored.get("earlier")
    return {name: stored[name] for name in _REPLACED if name in stored}


def _answered(at_ms: int | None) -> dict[str, Any]:
    return {} if at_ms is None else {"answered_at": at_ms}


def id_of(club_id: int, address: str) -> str:
    """Return the id of the document that can suppress an address for a club."""
    return f"{club_id}-{address_id(address)}"


def suppressed(
    club_id: int, addresses: Sequence[str], documents: Mapping[str, Mapping[str, Any]], now_ms: int
) -> set[str]:
    """Return the addresses to which a club must not send.

    Args:
        documents: The stored documents by id, for the id_of each address.
    """
    return {
        address
        for address in addresses
        if (name := id_of(club_id, address)) in documents and is_in_force(documents[name], now_ms)
    }


def is_in_force(document: Mapping[str, Any], now_ms: int) -> bool:
    """Return whether a document suppresses its address."""
    return now_ms < document["expires_at"] and not document.get("is_lifted")
