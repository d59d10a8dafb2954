"""The person to erase, and the values that replace theirs."""

from dataclasses import dataclass, field

from masscomm.domain import ids

# In place of a user id where a count depends on the row: no user has it.
ERASED_USER = ids.ERASED_USER
# In place of an address inside a text that must stay whole.
ERASED_ADDRESS = "erased@erased.invalid"


@dataclass(kw_only=True)
class Person:
    """addresses: e-mail addresses that stores named, or the caller; in small letters; clubs: tenants under which a
    store names the user."""

    user_id: int
    club_id: int
    addresses: set[str] = field(default_factory=set)
    clubs: set[int] = field(default_factory=set)

    def learn_address(self, text: object) -> None:
        """Remember an address of theirs."""
        if isinstance(text, str) and "@" in text:
            self.addresses.add(text.strip().lower())
