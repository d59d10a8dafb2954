"""The suppression list: addresses to which a club's e-mail is not sent, because they bounced for good or complained.

A suppression is one club's: its own message came back. It ends: a bounced address may exist again (180 days), a
complaint is remembered longer (730 days). Addresses are stored as SHA-256 only (masscomm.domain.ids.address_id).

Earlier versions stored suppressions for every club and for ever, under the hash alone. They stay in force until
`masscomm suppressions remove` removes them.
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
    """The suppression of an address for one club."""

    club_id: int
    address: str
    reason: Reason
    # The time of the provider's receipt (ms since the epoch).
    at_ms: int
    # From then on it is not in force (ms since the epoch).
    expires_ms: int

    @property
    def id(self) -> str:
        """The id of its document."""
        return _id(self.club_id, self.address)

    @property
    def version(self) -> int:
        """The version of its document: of two suppressions, the later end stays."""
        return self.expires_ms

    @property
    def source(self) -> dict[str, Any]:
        """The fields of its document."""
        return {
            "club_id": self.club_id,
            "address_id": address_id(self.address),
            "reason": self.reason.value,
            "at": self.at_ms,
            "expires_at": self.expires_ms,
        }


@dataclass(frozen=True, kw_only=True)
class Periods:
    """How long a suppression is in force, in days, by its reason."""

    bounced_days: float = 180
    complained_days: float = 730

    def end_ms(self, reason: Reason, at_ms: int) -> int:
        """Return the end (ms) of a suppression that begins at at_ms."""
        days = self.complained_days if reason is Reason.COMPLAINED else self.bounced_days
        return at_ms + round(days * DAY_MS)


def ids_of(club_id: int, address: str) -> tuple[str, str]:
    """The documents that can suppress an address for a club: the club's own, and an earlier version's."""
    return _id(club_id, address), address_id(address)


def in_force(source: Mapping[str, Any], now_ms: int) -> bool:
    """Whether a stored suppression is in force; without an end it always is."""
    ends = source.get("expires_at")
    return ends is None or now_ms < ends  # guard: suppressions.previous_form


def suppressed(
    club_id: int, addresses: Sequence[str], documents: Mapping[str, Mapping[str, Any]], now_ms: int
) -> set[str]:
    """Return the addresses that a club must not send to. documents: by id, for each id that ids_of returns."""
    return {
        address
        for address in addresses
        if any(name in documents and in_force(documents[name], now_ms) for name in ids_of(club_id, address))
    }


def _id(club_id: int, address: str) -> str:
    return f"{club_id}-{address_id(address)}"
