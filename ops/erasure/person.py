"""The person to erase, and the values that replace the person's data."""

import unicodedata
from contextlib import suppress
from dataclasses import dataclass, field

from masscomm.domain import ids
from masscomm.domain.addresses import trimmed_address, with_ascii_domain
from masscomm.domain.phone_numbers import e164
from masscomm.domain.sms_settings import number_of

# The user id that replaces the person's, so that counts of rows stay correct. No user has this id.
ERASED_USER = ids.ERASED_USER
# The address that replaces the person's in texts that must remain valid.
ERASED_ADDRESS = "erased@erased.invalid"


@dataclass(kw_only=True)
class Person:
    """The person to erase."""

    user_id: int
    club_id: int
    # The person's e-mail addresses and phone numbers, from the command line and from stores, in lower case.
    addresses: set[str] = field(default_factory=set)
    # The tenants under which a store has the user.
    clubs: set[int] = field(default_factory=set)

    def learn_address(self, text: object) -> None:
        """Add an e-mail address or phone number in each form that a store may have; anything else is ignored."""
        if not isinstance(text, str):
            return
        if "@" not in text:
            number = number_of(self.club_id, text)
            if e164(number, None) == number:  # guard: erasure.phone_number
                self.addresses.update((trimmed_address(text), number))
            return
        self._add(trimmed_address(text))
        # The form of the envelope, which a provider's receipts repeat. No e-mail is sent to an invalid domain.
        with suppress(ValueError):
            self._add(with_ascii_domain(text))  # guard: erasure.address_of_the_envelope

    def _add(self, address: str) -> None:
        # The suppression list has a digest of the address, which another normal form changes.
        # guard: erasure.normal_forms
        self.addresses.update(unicodedata.normalize(form, address.lower()) for form in ("NFC", "NFD", "NFKC", "NFKD"))
