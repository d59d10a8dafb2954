"""The person to erase, and the values that replace the person's data."""

from dataclasses import dataclass, field

from masscomm.domain import ids

# The user id that replaces the person's, so that counts of rows stay correct. No user has this id.
ERASED_USER = ids.ERASED_USER
# The address that replaces the person's in texts that must remain valid.
ERASED_ADDRESS = "erased@erased.invalid"


@dataclass(kw_only=True)
class Person:
    """The person to erase."""

    user_id: int
    club_id: int
    # The person's e-mail addresses, from the command line and from stores, in lower case.
    addresses: set[str] = field(default_factory=set)
    # The tenants under which a store has the user.
    clubs: set[int] = field(default_factory=set)

    def learn_address(self, text: object) -> None:
        """Add an e-mail address; anything else is ignored."""
        if isinstance(text, str) and "@" in text:
            self.addresses.add(text.strip().lower())
