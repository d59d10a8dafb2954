"""How e-mails are sent for each club (tenant) and category: schemas/email.yaml, or the file that MASSCOMM_EMAIL names.

An empty file sends every e-mail with the sender and the configuration set of the environment.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from masscomm.domain.limits import MAX_ADDRESS_BYTES
from masscomm.errors import Stop
from masscomm.safe_yaml import read_yaml
from schemas import absolute

# The environment variable with the path of a file that replaces schemas/email.yaml.
EMAIL_VARIABLE = "MASSCOMM_EMAIL"
DEFAULT = "default"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
# As SES requires: docs.aws.amazon.com/ses/latest/APIReference-V2, CreateConfigurationSet; CloudFormation,
# AWS::SES::Tenant.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CATEGORY_KEYS = ("sender", "reply_to", "configuration_set", "ses_tenant")
_CLUB_KEYS = {*_CATEGORY_KEYS, "mandatory_ses_tenant", "categories"}


class EmailError(Stop):
    """schemas/email.yaml is not valid. The message names the key."""


def address_in(text: str) -> str:
    """Return the address in a sender; "" if there is none in ASCII."""
    if not text:
        return ""
    from email.utils import parseaddr  # The import takes some milliseconds of a cold start.

    address = parseaddr(text)[1]
    return address if _ADDRESS.fullmatch(address) and address.isascii() else ""


@dataclass(frozen=True, kw_only=True)
class EmailOrigin:
    """How an e-mail is sent."""

    # The header From: an address, or a name and an address; empty: the environment has none.
    sender: str = ""
    # The header Reply-To; empty: none.
    reply_to: str = ""
    # The names in SES; None: none.
    configuration_set: str | None = None
    ses_tenant: str | None = None
    # The address of the sender alone.
    address: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", address_in(self.sender))

    @property
    def name(self) -> str:
        """Return the name of the sender; without one, the domain of its address."""
        from email.utils import parseaddr

        name, address = parseaddr(self.sender)
        return name or address.rpartition("@")[2]


@dataclass(frozen=True, kw_only=True)
class ClubEmails:
    """How the e-mails of a club are sent."""

    origin: EmailOrigin = EmailOrigin()
    # The origins of categories that differ.
    of_categories: Mapping[str, EmailOrigin] = MappingProxyType({})
    # The tenant of SES for mandatory categories.
    mandatory_ses_tenant: str | None = None

    def of(self, category: str, *, is_mandatory: bool) -> EmailOrigin:
        """Return the origin of a category."""
        found = self.of_categories.get(category, self.origin)
        if is_mandatory and self.mandatory_ses_tenant != found.ses_tenant:  # guard: email.mandatory_tenant
            return _moved(found, self.mandatory_ses_tenant)
        return found

    @property
    def origins(self) -> list[EmailOrigin]:
        """Return every origin of the club."""
        own = [self.origin, *self.of_categories.values()]
        return [*own, *(_moved(each, self.mandatory_ses_tenant) for each in own if self.mandatory_ses_tenant)]

    @property
    def ses_tenants(self) -> set[str]:
        """Return the tenants of SES of categories that are not mandatory."""
        return {each.ses_tenant for each in (self.origin, *self.of_categories.values()) if each.ses_tenant}


@cache
def _moved(origin: EmailOrigin, ses_tenant: str | None) -> EmailOrigin:
    return replace(origin, ses_tenant=ses_tenant)


@dataclass(frozen=True, kw_only=True, eq=False)
class EmailTable:
    """The contents of the file."""

    default: ClubEmails
    of_clubs: Mapping[int, ClubEmails] = MappingProxyType({})
    # The origin of an empty file.
    usual: EmailOrigin = EmailOrigin()

    def club(self, club_id: int) -> ClubEmails:
        """Return how the e-mails of a club are sent."""
        return self.of_clubs.get(club_id, self.default)  # guard: email.sender_of_tenant

    def clubs(self) -> Iterator[tuple[str, ClubEmails]]:
        """Yield each entry with its name in the file."""
        yield DEFAULT, self.default
        for club_id, each in self.of_clubs.items():
            yield f"tenants.{club_id}", each

    def club_of(self, ses_tenant: str) -> int | None:
        """Return the club whose e-mails SES sends for one of its tenants; None for a tenant of mandatory categories."""
        return next((club_id for club_id, each in self.of_clubs.items() if ses_tenant in each.ses_tenants), None)

    def is_own_set(self, club_id: int, configuration_set: str | None) -> bool:
        """Return whether a club alone sends with a configuration set."""
        sets = {name: {origin.configuration_set for origin in each.origins} for name, each in self.clubs()}
        return [name for name, some in sets.items() if configuration_set in some] == [f"tenants.{club_id}"]

    @property
    def origins(self) -> list[EmailOrigin]:
        """Return the different origins."""
        return list(dict.fromkeys(origin for _, each in self.clubs() for origin in each.origins))

    @property
    def identities(self) -> list[str]:
        """Return the identities in SES that the senders may have: of each its domain, or its address."""
        addresses = [each.address for each in self.origins]
        return list(dict.fromkeys(name for each in addresses for name in (each.rpartition("@")[2], each)))

    @property
    def configuration_sets(self) -> list[str]:
        """Return the different configuration sets."""
        return list(dict.fromkeys(each.configuration_set for each in self.origins if each.configuration_set))

    @property
    def ses_tenants(self) -> list[str]:
        """Return the different tenants of SES."""
        return list(dict.fromkeys(each.ses_tenant for each in self.origins if each.ses_tenant))


@cache
def email_table() -> EmailTable:
    """Return the contents of the file, with the sender and the configuration set of this environment as defaults.
    Raises EmailError if it is not valid.
    """
    return table_of(os.environ.get("SES_SENDER", ""), os.environ.get("SES_CONFIGURATION_SET") or None)


def table_of(sender: str, configuration_set: str | None) -> EmailTable:
    """Return the contents of the file with these defaults. Raises EmailError if it is not valid."""
    path = Path(os.environ.get(EMAIL_VARIABLE) or absolute("email.yaml")).expanduser()
    return read_emails(read_yaml(path, "email.yaml", EmailError), sender=sender, configuration_set=configuration_set)


def read_emails(document: Any, *, sender: str = "", configuration_set: str | None = None) -> EmailTable:
    """Return the contents of a parsed email.yaml. Raises EmailError.

    Args:
        document: The parsed file.
        sender: The sender of the environment; "": it sends no e-mails.
        configuration_set: The configuration set of the environment.
    """
    entries = _mapping(document, "", {DEFAULT, "tenants"})
    given = _mapping(entries.get(DEFAULT), DEFAULT, _CLUB_KEYS)
    usual = EmailOrigin(sender=_text("SES_SENDER", sender), configuration_set=configuration_set)
    default = _club(given, DEFAULT, ClubEmails(origin=usual))
    if default.ses_tenants:
        raise EmailError(
            "email.yaml: default: each tenant needs a ses_tenant of its own, because SES would pause the e-mails of all"
        )
    clubs: dict[int, ClubEmails] = {}
    for club_id, own in _mapping(entries.get("tenants"), "tenants").items():
        where = f"tenants.{club_id}"
        if isinstance(club_id, bool) or not isinstance(club_id, int):
            raise EmailError(f"email.yaml: {where}: a club's id is a whole number")
        clubs[club_id] = _club(_mapping(own, where, _CLUB_KEYS), where, default)
    table = EmailTable(default=default, of_clubs=MappingProxyType(clubs), usual=usual)
    _check_tenants(table)
    return table


def _check_tenants(table: EmailTable) -> None:
    """Check that a tenant of SES that SES pauses stops the e-mails of one club only, and none that are mandatory."""
    owners: dict[str, str] = {}
    mandatory = {each.mandatory_ses_tenant for _, each in table.clubs()}
    for where, club in table.clubs():
        for name in sorted(club.ses_tenants):
            # SES would pause the mandatory e-mails, too.
            if club.mandatory_ses_tenant is None:  # guard: email.mandatory_goes_on
                raise EmailError(f"email.yaml: {where}.mandatory_ses_tenant is required, because SES may pause {name}")
            if name in mandatory:
                raise EmailError(f"email.yaml: {where}.ses_tenant: {name} is a mandatory_ses_tenant")
            if owners.setdefault(name, where) != where:
                raise EmailError(f"email.yaml: {where}.ses_tenant: {name} is that of {owners[name]}, too")


def _club(given: Mapping[str, Any], where: str, default: ClubEmails) -> ClubEmails:
    origin = _origin(given, where, default.origin)
    inherited = {name: _origin(given, where, each) for name, each in default.of_categories.items()}
    of_categories = dict(inherited)
    for name, entry in _mapping(given.get("categories"), f"{where}.categories").items():
        place = f"{where}.categories.{name}"
        if not isinstance(name, str) or not name:
            raise EmailError(f"email.yaml: {place}: the name of a category is a text")
        base = inherited.get(name, origin)
        of_categories[name] = _origin(_mapping(entry, place, set(_CATEGORY_KEYS)), place, base)
    mandatory = given.get("mandatory_ses_tenant", default.mandatory_ses_tenant)
    return ClubEmails(
        origin=origin,
        of_categories=MappingProxyType(of_categories),
        mandatory_ses_tenant=_name(mandatory, f"{where}.mandatory_ses_tenant"),
    )


def _origin(given: Mapping[str, Any], where: str, base: EmailOrigin) -> EmailOrigin:
    """Return the origin of an entry, which has the values of `base` where it gives none."""
    found: dict[str, Any] = {}
    for key in ("sender", "reply_to"):
        if key in given:
            found[key] = _text(f"{where}.{key}", given[key])
            if not found[key]:
                raise EmailError(f"email.yaml: {where}.{key} must be an address")
    for key in ("configuration_set", "ses_tenant"):
        if key in given:
            found[key] = _name(given[key], f"{where}.{key}")
    return replace(base, **found)


def _text(where: str, text: Any) -> str:
    """Return a sender or an address for answers. Raises EmailError if it has no address, or is more than one line."""
    if text == "":
        return ""
    # A line break would begin another header.
    if not isinstance(text, str) or _CONTROL.search(text):  # guard: email.one_line
        raise EmailError(f"email.yaml: {where} must be an address, or a name and an address, in one line")
    # SES would refuse the message of each recipient.
    if not 0 < len(address_in(text)) <= MAX_ADDRESS_BYTES:  # guard: email.sender
        raise EmailError(
            f"email.yaml: {where}: the sender has no address: {text!r}. Write it as Name <name@example.com>, a name"
            " with a comma in quotes, and a domain in Punycode"
        )
    return text


def _name(value: Any, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise EmailError(f"email.yaml: {where} must be a name in SES: at most 64 letters, digits, - and _")
    return value


def _mapping(entry: Any, where: str, allowed: set[str] | None = None) -> Mapping[Any, Any]:
    if entry is None:
        return {}
    if not isinstance(entry, dict):
        raise EmailError(f"email.yaml: {where or 'the file'} must be a mapping")
    if allowed is not None and (unknown := [str(key) for key in entry if key not in allowed]):
        expected = ", ".join(sorted(allowed))
        raise EmailError(f"email.yaml: {where or 'the file'} has {', '.join(unknown)}; allowed are {expected}")
    return entry
