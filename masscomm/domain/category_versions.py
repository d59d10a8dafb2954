"""The stored form of the versions of a category, and the version that a change makes.

A version begins a minute after its change. A function or the job uses the versions that it has read for less time than
that, so that no send has a timestamp at which a version was valid that it did not know.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from masscomm.domain import digests, frequency_caps
from masscomm.domain.categories import Category, CategoryVersion, read_category
from masscomm.domain.limits import MAX_AHEAD_MS
from masscomm.domain.time_limits import CATEGORY_BEGINS_AFTER_S, TOO_OLD_S

# The largest version, and the largest versions of a category together: they are one item of DynamoDB, of 400 kB.
MAX_VERSION_BYTES, MAX_VERSIONS_BYTES = 6_000, 350_000
_OF_ENTRY = (
    *("channels", "mandatory", "critical", "opt_in", "caps", "digest", "shorten", "titles", "descriptions"),
    "tenants",
)


# The digests of the tenants that differ in it. Code of version 0.1.0 refuses a tenant with further keys.
_TENANT_DIGESTS = "tenant_digests"


class VersionTooLarge(Exception):
    """A version has more than MAX_VERSION_BYTES."""


class TooManyVersions(Exception):
    """The category has been changed too often: sends that wait may need each of its versions."""


def next_versions(
    versions: Sequence[CategoryVersion], fields: Mapping[str, Any], *, name: str, now_ms: int
) -> list[CategoryVersion]:
    """Return the versions after a change; the same ones if it changes nothing.

    Args:
        versions: The versions before it.
        fields: The category as an entry of schemas/categories.yaml, with `tenants` and `retired` (see fields_of).
        name: Its name, for errors.
        now_ms: The time of the change, in milliseconds since the epoch.

    Raises:
        CategoriesError: The fields are not valid.
        VersionTooLarge: They are too large.
        TooManyVersions: They are too large together.
    """
    last = versions[-1] if versions else None
    begins = now_ms + round(CATEGORY_BEGINS_AFTER_S * 1000)
    # The clock of another server may have been ahead.
    from_ms = begins if last is None else max(begins, last.from_ms + 1)
    made = version_of({**fields, "from_ms": from_ms}, name)
    if last is not None and made == replace(last, from_ms=from_ms):
        return list(versions)
    if len(json.dumps(fields_of(made), ensure_ascii=False).encode()) > MAX_VERSION_BYTES:
        raise VersionTooLarge
    found = [*versions, made]
    # No send that waits has an earlier timestamp.
    earliest_ms = now_ms - round(TOO_OLD_S * 1000) - MAX_AHEAD_MS
    while found[1:] and found[1].from_ms <= earliest_ms:  # guard: categories.needed_versions
        del found[0]
    if len(stored(found).encode()) > MAX_VERSIONS_BYTES:
        raise TooManyVersions
    return found


def version_of(fields: Mapping[str, Any], name: str) -> CategoryVersion:
    """Return the version in a JSON object (fields_of). Raises CategoriesError."""
    # A later version of the code may have stored further ones.
    entry = {key: fields[key] for key in _OF_ENTRY if key in fields}
    tenants = {club_id: _known(own) for club_id, own in entry.get("tenants", {}).items()}
    for club_id, digest in fields.get(_TENANT_DIGESTS, {}).items():
        tenants[club_id] = _known({**tenants[club_id], "digest": digest})
    category, of_clubs = read_category(name, {**_known(entry), "tenants": tenants})
    return CategoryVersion(
        from_ms=int(fields["from_ms"]),
        category=category,
        of_clubs=of_clubs,
        is_retired=fields.get("retired", False) is True,
    )


def _known(entry: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(entry)
    for name, known_fields in (("caps", frequency_caps.known_fields), ("digest", digests.known_fields)):
        if entry.get(name) is not None:
            found[name] = known_fields(entry[name])
    return found


def fields_of(version: CategoryVersion) -> dict[str, Any]:
    """Return a version as a JSON object: an entry of schemas/categories.yaml with the keys from_ms, retired and
    tenants, with clubs' ids as texts.
    """
    digests_of_clubs = {
        str(club_id): _digest(each)
        for club_id, each in sorted(version.of_clubs.items())
        if each.digest != version.category.digest
    }
    return {
        "from_ms": version.from_ms,
        "retired": version.is_retired,
        "mandatory": version.category.mandatory,
        **({"critical": True} if version.category.critical else {}),
        **({"shorten": True} if version.category.shorten else {}),
        "titles": dict(version.category.titles),
        **({"descriptions": dict(found)} if (found := version.category.descriptions) else {}),
        **({} if (digest := _digest(version.category)) is None else {"digest": digest}),
        **_differing(version.category),
        "tenants": {str(club_id): _differing(each) for club_id, each in sorted(version.of_clubs.items())},
        **({_TENANT_DIGESTS: digests_of_clubs} if digests_of_clubs else {}),
    }


def _digest(category: Category) -> dict[str, Any] | None:
    return None if category.digest is None else digests.fields_of_digest(category.digest)


def _differing(category: Category) -> dict[str, Any]:
    """Return what a tenant may have otherwise, without the digest."""
    return {
        "channels": list(category.channels),
        "opt_in": sorted(category.opt_in),
        **({} if category.caps is None else {"caps": frequency_caps.fields_of_caps(category.caps)}),
    }


def stored(versions: Sequence[CategoryVersion]) -> str:
    """Return versions as text."""
    return json.dumps([fields_of(each) for each in versions], ensure_ascii=False)


def read_stored(text: str, name: str) -> list[CategoryVersion]:
    """Return the versions in a text. Raises CategoriesError, ValueError, KeyError or TypeError if there are none."""
    return [version_of(each, name) for each in json.loads(text)]
