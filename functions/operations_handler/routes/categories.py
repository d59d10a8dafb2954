"""The categories of sends, which are data: those of schemas/categories.yaml, and the versions that operators put in
their place. A version begins a minute after its request; a category is retired, never deleted.

GET /v1/categories                   all categories, as they were put last
GET, PUT /v1/categories/{category}   the versions of one; put a version

`default` is the category of all types without one of their own. Its caps apply to each category without caps.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, cast

from masscomm.clock import Clock
from masscomm.domain.audit import Action
from masscomm.domain.categories import DEFAULT, Category, CategoryTable, CategoryVersion, seed
from masscomm.domain.category_versions import (
    MAX_VERSION_BYTES,
    TooManyVersions,
    VersionTooLarge,
    next_versions,
)
from masscomm.domain.channels import CHANNELS, are_channels
from masscomm.domain.digests import DigestError, fields_of_digest, read_digest
from masscomm.domain.frequency_caps import MAX_CAPS, MAX_LIMIT, CapError, read_caps
from masscomm.domain.limits import NAME_PATTERN
from masscomm.domain.names import folded
from masscomm.domain.time_limits import LONGEST_CAP_S
from masscomm.errors import Retry
from masscomm.http.body import read_object, undefined_fields
from masscomm.http.conditions import Conditions, etag_of
from masscomm.http.digests import form_error
from masscomm.http.parameters import Reader, time_of_ms
from masscomm.http.problem import FieldError, Problem, unusable
from masscomm.http.tenant import Clubs
from masscomm.integers import HIGHEST
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.categories.port import Categories, ChangedMeanwhile
from masscomm.texts import CodedText, Text

MAX_TITLE, MAX_DESCRIPTION = 100, 300
# The attempts to store a version while other requests change the category.
_ATTEMPTS = 3
_LANGUAGE = re.compile(r"[a-z]{2,3}")


class CapFields(TypedDict):
    """How many sends of a category a user gets in a window."""

    limit: int
    """From 1 to 100."""
    window: str
    """`day`, the user's local day, or the length of a rolling window such as `30m`, `24h` or `7d`; at most 30 days."""
    by_channel: NotRequired[bool]
    """Whether each channel counts by itself; otherwise a send counts once for all its channels."""
    group: NotRequired[str | None]
    """The group whose categories count together; null: the category counts by itself."""


class DigestFields(TypedDict):
    """How the notifications of a category to one user on one channel are collected in one message."""

    template: str
    """The template of the message. It sees `digest.count`, `digest.first` and `digest.list`."""
    window: NotRequired[str | None]
    """How long they are collected after the first one, such as `30m`, `24h` or `7d`; at most 7 days."""
    at: NotRequired[str | None]
    """Instead of a window, the time on the user's clock at which the message goes out, such as `08:00`."""
    key: NotRequired[str | None]
    """The variable whose value separates digests, such as `post_id`."""
    list: NotRequired[int]
    """The number of notifications whose variables the template sees, from 1 to 100; by default 10."""


class ClubFields(TypedDict):
    """How a category differs for the sends of one club."""

    club_id: int
    channels: NotRequired[list[str]]
    opt_in: NotRequired[list[str]]
    caps: NotRequired[list[CapFields] | None]
    digest: NotRequired[DigestFields | None]
    """Null: each notification goes out by itself; missing: as the category."""


class CategoryFields(TypedDict):
    """The body of a request to PUT /v1/categories/{category}. It replaces the category."""

    channels: list[str]
    """The channels of a send that names none."""
    mandatory: NotRequired[bool]
    """Whether an opt-out of the user does not apply."""
    critical: NotRequired[bool]
    """Whether its sends use the critical lane, to which no cap, digest, pace or quiet hours apply."""
    opt_in: NotRequired[list[str]]
    """The channels on which only users with a rule for the category get it."""
    caps: NotRequired[list[CapFields] | None]
    """The frequency caps, at most four; null: those of the default category apply."""
    digest: NotRequired[DigestFields | None]
    """How its notifications are collected; null: each goes out by itself."""
    shorten: NotRequired[bool]
    """Whether the body of a push that is larger than a platform accepts is shortened. Otherwise it fails."""
    titles: NotRequired[dict[str, str]]
    """The name that recipients see on the page of an unsubscribe link, by language such as `de`."""
    descriptions: NotRequired[dict[str, str]]
    """A sentence for recipients about its content, by language."""
    clubs: NotRequired[list[ClubFields]]
    """The clubs for which the category differs."""
    retired: NotRequired[bool]
    """Whether new sends over REST are refused. Those by Kafka keep the rules of the category."""


class CategoryOfClub(TypedDict):
    """A category as it is for the sends of one club."""

    club_id: int
    channels: list[str]
    opt_in: list[str]
    caps: list[CapFields] | None
    digest: DigestFields | None


class CategoryValues(TypedDict):
    """A category as it is from a time on."""

    valid_from: str | None
    """The time from which it is valid; null: it is the one of the installation's file."""
    channels: list[str]
    """The channels of a send that names none."""
    mandatory: bool
    """Whether an opt-out of the user does not apply."""
    critical: bool
    """Whether its sends use the critical lane."""
    opt_in: list[str]
    """The channels on which only users with a rule for the category get it."""
    caps: list[CapFields] | None
    """The frequency caps; null: those of the default category apply."""
    digest: DigestFields | None
    """How its notifications are collected; null: each goes out by itself."""
    shorten: bool
    """Whether the body of a push that is larger than a platform accepts is shortened."""
    titles: dict[str, str]
    """The name that recipients see, by language."""
    descriptions: dict[str, str]
    """A sentence for recipients about its content, by language."""
    retired: bool
    """Whether new sends over REST are refused."""
    clubs: list[CategoryOfClub]
    """The caller's clubs for which the category differs."""


class CategoryRow(CategoryValues):
    """A category of sends, as it was put last."""

    type: str
    """The value of the field `type` of a send; `default` stands for each type without a row."""


class CategoriesBody(TypedDict):
    """The categories of sends."""

    rows: list[CategoryRow]


class CategoryBody(TypedDict):
    """A category of sends with all its versions."""

    type: str
    """The value of the field `type` of a send."""
    versions: list[CategoryValues]
    """The versions, the latest first."""
    etag: str
    """The header `ETag`, for `If-Match` of a change."""


@dataclass(frozen=True, kw_only=True)
class CategoriesRoute:
    store: Categories
    clock: Clock

    def every(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> CategoriesBody:
        """Return the categories, and how they differ for these clubs. Raises Problem (400 for any parameter) or
        Retry.
        """
        Reader(parameters).check()
        table = self._table()
        return {"rows": [_row(table, name, clubs) for name in sorted((DEFAULT, *table.listed))]}

    def show(self, name: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> CategoryBody:
        """Return the versions of a category. Raises Problem (400 for any parameter, 404) or Retry."""
        Reader(parameters).check()
        table = self._table()
        if not _is_known(table, name):
            raise Problem(404, Text.NAMED_CATEGORY_UNKNOWN.filled())
        return _body(table, name, clubs)

    def put(self, name: str, content: str | None, clubs: Clubs, audit: Audit, conditions: Conditions) -> CategoryBody:
        """Put a version of a category, and return all. Raises Problem (400, 403, 409, 412) or Retry."""
        # Categories belong to the installation: a change concerns the sends of every club.
        if not clubs.every:  # guard: tenancy.changed_categories
            raise Problem(403, Text.EVERY_CLUB_NEEDED.filled())
        fields = _read(name, content)
        for _ in range(_ATTEMPTS):
            # Before the versions: a change after it refuses this one, so that no two names are spellings of one.
            revision, table = self.store.revision(), self._table()
            self._check_spelling(table, name)
            before = table.versions.get(name, ())
            try:
                after = next_versions(before, fields, name=name, now_ms=self.clock.now_ms())
            except VersionTooLarge as error:
                raise unusable(
                    [FieldError("titles", Text.CATEGORY_TOO_LARGE.filled(maximum=MAX_VERSION_BYTES))]
                ) from error
            except TooManyVersions as error:
                raise Problem(409, Text.CATEGORY_CHANGED_TOO_OFTEN.filled()) from error
            # A repeated request finds its own version, and succeeds as before.
            if list(after) != list(before):
                conditions.check(_body(table, name, clubs)["etag"] if _is_known(table, name) else None)
                try:
                    self.store.put(name, after, revision=revision)
                except ChangedMeanwhile:
                    continue
                audit(
                    Action.CATEGORY_STORED, subject=name, clubs=[], detail=f"valid from {time_of_ms(after[-1].from_ms)}"
                )
            return _body(table.with_versions({**table.versions, name: after}), name, clubs)
        raise Retry("categories are changed by other requests at the same time")

    def _table(self) -> CategoryTable:
        return seed().with_versions(self.store.every())

    @staticmethod
    def _check_spelling(table: CategoryTable, name: str) -> None:
        known = table.names.get(folded(name), name)
        if known != name:
            raise unusable([FieldError("category", Text.CATEGORY_SPELLING.filled(category=known))])


def _read(name: str, content: str | None) -> dict[str, Any]:
    """Return the category in a request, as an entry of the installation's file. Raises Problem with status 400."""
    fields = read_object(content)
    errors = undefined_fields(fields, CategoryFields)
    if not re.fullmatch(NAME_PATTERN, name) or (folded(name) == DEFAULT and name != DEFAULT):
        errors.append(FieldError("category", Text.TEXT_PATTERN.filled(pattern=NAME_PATTERN)))
    errors += _channel_errors("channels", fields.get("channels"), empty=False)
    opt_in = fields.get("opt_in", [])
    errors += _channel_errors("opt_in", opt_in)
    errors += _cap_errors("caps", fields)
    errors += _digest_errors("digest", fields.get("digest"))
    flags = {flag: fields.get(flag, False) for flag in ("mandatory", "critical", "shorten", "retired")}
    errors += [
        FieldError(flag, Text.MUST_BE_BOOLEAN.filled()) for flag, value in flags.items() if type(value) is not bool
    ]
    if name == DEFAULT and flags["retired"]:
        errors.append(FieldError("retired", Text.DEFAULT_RETIRED.filled()))
    texts = {name: fields.get(name, {}) for name in ("titles", "descriptions")}
    errors += [
        FieldError(name, problem)
        for name, maximum in (("titles", MAX_TITLE), ("descriptions", MAX_DESCRIPTION))
        if (problem := _problem_of_texts(texts[name], maximum)) is not None
    ]
    clubs = fields.get("clubs", [])
    errors += _club_errors(clubs)
    if not errors and flags["mandatory"] and (opt_in or any(club.get("opt_in") for club in clubs)):
        errors.append(FieldError("opt_in", Text.OPT_IN_OF_MANDATORY.filled()))
    if not errors and flags["mandatory"] and (fields.get("caps") or any(club.get("caps") for club in clubs)):
        errors.append(FieldError("caps", Text.CAPS_OF_MANDATORY.filled()))
    if not errors:
        has_digest = any(each.get("digest") is not None for each in (fields, *clubs))
        if flags["mandatory"] and has_digest:
            errors.append(FieldError("digest", Text.DIGEST_OF_MANDATORY.filled()))
        if flags["critical"] and any(each.get("caps") for each in (fields, *clubs)):
            errors.append(FieldError("caps", Text.CAPS_OF_CRITICAL.filled()))
        elif flags["critical"] and has_digest:
            errors.append(FieldError("digest", Text.DIGEST_OF_CRITICAL.filled()))
    if errors:
        raise unusable(errors)
    tenants = {str(club["club_id"]): {key: club[key] for key in club.keys() - {"club_id"}} for club in clubs}
    rules = {rule: fields[rule] for rule in ("caps", "digest") if fields.get(rule) is not None}
    return {"channels": fields["channels"], "opt_in": opt_in, "tenants": tenants, **texts, **rules, **flags}


def _is_known(table: CategoryTable, name: str) -> bool:
    return name == DEFAULT or name in table.listed


def _cap_errors(field: str, fields: Mapping[str, Any]) -> list[FieldError]:
    if fields.get("caps") is None:
        return []
    try:
        read_caps(fields["caps"])
    except CapError:
        days = round(LONGEST_CAP_S) // 86_400
        return [FieldError(field, Text.CAPS_FORM.filled(most=MAX_CAPS, limit=MAX_LIMIT, days=days))]
    return []


def _digest_errors(field: str, digest: Any) -> list[FieldError]:
    if digest is None:
        return []
    try:
        read_digest(digest)
    except DigestError:
        return [FieldError(field, form_error().message)]
    return []


def _channel_errors(field: str, value: Any, *, empty: bool = True) -> list[FieldError]:
    if are_channels(value) and (empty or value):
        return []
    return [FieldError(field, Text.MUST_BE_LIST_OF_SOME.filled(choices=", ".join(CHANNELS)))]


def _problem_of_texts(texts: Any, maximum: int) -> CodedText | None:
    if not isinstance(texts, dict) or not all(_LANGUAGE.fullmatch(language) for language in texts):
        return Text.TITLES_FORM.filled()
    if not all(isinstance(text, str) and 1 <= len(text) <= maximum for text in texts.values()):
        return Text.MUST_BE_TEXT.filled(maximum=maximum)
    return None


def _club_errors(clubs: Any) -> list[FieldError]:
    if not isinstance(clubs, list) or not all(isinstance(club, dict) for club in clubs):
        return [FieldError("clubs", Text.MUST_BE_LIST_OF_OBJECTS.filled())]
    errors: list[FieldError] = []
    seen: set[int] = set()
    for index, club in enumerate(clubs):
        where = f"clubs[{index}]."
        errors += [FieldError(f"{where}{each.field}", each.message) for each in undefined_fields(club, ClubFields)]
        club_id = club.get("club_id")
        if type(club_id) is not int or not 1 <= club_id <= HIGHEST or club_id in seen:
            errors.append(FieldError(f"{where}club_id", Text.CLUB_ONCE.filled()))
        else:
            seen.add(club_id)
        errors += _channel_errors(f"{where}channels", club["channels"], empty=False) if "channels" in club else []
        errors += _channel_errors(f"{where}opt_in", club["opt_in"]) if "opt_in" in club else []
        errors += _cap_errors(f"{where}caps", club)
        errors += _digest_errors(f"{where}digest", club.get("digest"))
    return errors


def _row(table: CategoryTable, name: str, clubs: Container[object]) -> CategoryRow:
    last = table.version(name, None)
    return {"type": name, **(_of_file(table, name, clubs) if last is None else _values(last, clubs))}


def _body(table: CategoryTable, name: str, clubs: Container[object]) -> CategoryBody:
    versions = [_values(each, clubs) for each in reversed(table.versions.get(name, ()))]
    if name in table.categories:
        versions.append(_of_file(table, name, clubs))
    body = {"type": name, "versions": versions}
    return {"type": name, "versions": versions, "etag": etag_of(body)}


def _of_file(table: CategoryTable, name: str, clubs: Container[object]) -> CategoryValues:
    of_clubs = {club_id: own[name] for club_id, own in table.of_clubs.items() if name in own}
    version = CategoryVersion(from_ms=0, category=table.categories[name], of_clubs=of_clubs)
    return {**_values(version, clubs), "valid_from": None}


def _values(version: CategoryVersion, clubs: Container[object]) -> CategoryValues:
    found = version.category
    return {
        "valid_from": time_of_ms(version.from_ms),
        "channels": list(found.channels),
        "mandatory": found.mandatory,
        "critical": found.critical,
        "opt_in": sorted(found.opt_in),
        "caps": _caps(found),
        "digest": _digest(found),
        "shorten": found.shorten,
        "titles": dict(found.titles),
        "descriptions": dict(found.descriptions),
        "retired": version.is_retired,
        "clubs": [
            _of_club(club_id, own)
            for club_id, own in sorted(version.of_clubs.items())
            if club_id in clubs  # guard: tenancy.categories
        ],
    }


def _of_club(club_id: int, found: Category) -> CategoryOfClub:
    return {
        "club_id": club_id,
        "channels": list(found.channels),
        "opt_in": sorted(found.opt_in),
        "caps": _caps(found),
        "digest": _digest(found),
    }


def _digest(found: Category) -> DigestFields | None:
    return None if found.digest is None else cast("DigestFields", fields_of_digest(found.digest))


def _caps(found: Category) -> list[CapFields] | None:
    if found.caps is None:
        return None
    return [
        {"limit": cap.limit, "window": cap.window, "by_channel": cap.by_channel, "group": cap.group}
        for cap in found.caps
    ]
