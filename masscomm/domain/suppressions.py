"""The suppression list: addresses to which a club's e-mail is not sent, because they bounced for good or complained.

A suppression applies to the one club whose message bounced. It expires: after 180 days for a bounced address, which may
exist again, and after 730 days for a complaint. Addresses are stored as SHA-256 only (masscomm.domain.ids.address_id).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from masscomm.domain.ids import address_id
from masscomm.domain.statuses import Reason

INDEX = "suppressions"
DAY_MS = 86_400_000
# The end of a suppression that was removed. A sweep of the scheduler deletes its document.
REMOVED = 0


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
        if (name := id_of(club_id, address)) in documents and now_ms < documents[name]["expires_at"]
    }
