"""The suppression list: addresses to which a club's e-mail is not sent, because they bounced for good or complained.

A suppression applies to the one club whose message bounced. It expires: after 180 days for a bounced address, which may
exist again, and after 730 days for a complaint. Addresses are stored as SHA-256 only (masscomm.domain.ids.address_id).

Earlier versions stored suppressions under the hash alone, for every club and without an expiry. They remain in force
until `masscomm suppressions remove` removes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from masscomm.domain.ids import address_id
from masscomm.domain.statuses import Reason

INDEX = "suppressions"
DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class Suppression:
    """One club's suppression of an e-mail address."""

    club_id: int
    address: str
    reason: Reason
    # The time of the provider's receipt, in ms since the epoch.
    at_ms: int
    # The time at which the suppression expires, in ms since the epoch.
    expires_ms: int

    @property
    def id(self) -> str:
        return _id(self.club_id, self.address)

    @property
    def version(self) -> int:
        """Return the version of the suppression's document: of two suppressions, the one that expires later is kept."""
        return self.expires_ms

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


def ids_of(club_id: int, address: str) -> tuple[str, str]:
    """Return the ids of the documents that can suppress an address for a club: the club's own, and one in the form
    of earlier versions.
    """
    return _id(club_id, address), address_id(address)


def in_force(source: Mapping[str, Any], now_ms: int) -> bool:
    """Return whether a stored suppression is in force now; one without an expiry always is."""
    ends = source.get("expires_at")
    return ends is None or now_ms < ends  # guard: suppressions.previous_form


def suppressed(
    club_id: int, addresses: Sequence[str], documents: Mapping[str, Mapping[str, Any]], now_ms: int
) -> set[str]:
    """Return the addresses to which a club must not send.

    Args:
        documents: The stored documents by id, for each id that ids_of returns.
    """
    return {
        address
        for address in addresses
        if any(name in documents and in_force(documents[name], now_ms) for name in ids_of(club_id, address))
    }


def _id(club_id: int, address: str) -> str:
    return f"{club_id}-{address_id(address)}"
