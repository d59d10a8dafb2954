"""The bodies of requests and responses about a user's preferences."""

import re
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from functions.preferences_handler.row_body import RowBody, row_body
from masscomm.directory.person import Person
from masscomm.domain.categories import categories, category
from masscomm.domain.channels import CHANNELS
from masscomm.domain.names import folded
from masscomm.domain.preference_changes import QuietHoursWish, Wish
from masscomm.domain.quiet_hours import applied_hours
from masscomm.domain.setting_names import read_names, setting_names
from masscomm.http.body import read_object
from masscomm.http.parameters import time_of_ms
from masscomm.http.problem import FieldError, Problem, invalid
from masscomm.http.rest import Links
from masscomm.http.tenant import parse_club_id
from masscomm.texts import CodedText, Text

_RULES = ("channels", "categories")
_FIELDS = (*_RULES, "quiet_hours")
_MOST_ERRORS = 20
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]", re.ASCII)


class QuietHoursBody(TypedDict):
    """The time of day, in the user's time zone, at which the user gets no notification."""

    start: str
    """HH:MM, inclusive."""
    end: str
    """HH:MM, exclusive; before the start: on the next day."""


class PreferencesRequest(TypedDict):
    """The rules to set. Rules that are not named stay as they are."""

    channels: NotRequired[dict[str, bool]]
    """Channel → whether the user wants it, for categories without a rule of their own."""
    categories: NotRequired[dict[str, bool | dict[str, bool]]]
    """Category → whether the user wants it, on every channel or by channel."""
    quiet_hours: NotRequired[QuietHoursBody | None]
    """The quiet hours; null removes them."""


class EffectivePreference(TypedDict):
    """Whether notifications of a category reach the user on a channel."""

    category: str
    channel: str
    wanted: bool
    layer: str
    """The source of the decision, as in outcomes: tenant_user (the user's settings for the tenant), user (their
    settings), tenant and global (rules of the tenant, and of every tenant) or default (the category)."""
    rule: str | None
    """The rule that applies, as in outcomes; null: there is none."""
    row: RowBody | None
    """The row with the rule; null: the category decides."""


class CategoryTexts(TypedDict):
    """What recipients see of a category, by language such as `de`."""

    titles: dict[str, str]
    descriptions: dict[str, str]


class PreferencesBody(TypedDict):
    """A user's preferences."""

    user_id: int
    club_id: int
    channels: dict[str, bool]
    """The user's rules for channels."""
    categories: dict[str, bool | dict[str, bool]]
    """The user's rules for categories."""
    quiet_hours: QuietHoursBody | None
    """The user's quiet hours; null: there are none."""
    quiet_hours_row: RowBody | None
    """The row that sets or removes quiet hours; null: no row does."""
    effective: list[EffectivePreference]
    """The result for each category on each channel."""
    texts: dict[str, CategoryTexts]
    """Category → its titles and descriptions. A category without any has no entry."""
    changed_at: str | None
    """The time of the newest change in the user's settings; null: it is unknown, or there are no settings."""
    pending: bool
    """Whether the monolith has not applied a change yet. The change applies to notifications already."""
    links: Links


def preferences_body(person: Person) -> PreferencesBody:
    """Return the response body. Rules and quiet hours that cannot be read are shown as they apply."""
    user, settings = person.user, person.settings
    hours = applied_hours(settings.quiet_hours if settings is not None else None)
    known = setting_names()
    by_channel = _known(settings.channels if settings is not None else {}, known.channels)
    listed = {folded(name): name for name in categories()}
    by_category = {
        listed.get(name, name): rule
        for name, rule in _known(settings.categories if settings is not None else {}, known.categories).items()
    }
    names = list(dict.fromkeys((*listed.values(), *by_category)))
    effective: list[EffectivePreference] = []
    for name in names:
        for channel in CHANNELS:
            decision = person.decide(type=name, channel=channel)
            row = person.deciding_row(decision, type=name, channel=channel)
            effective.append(
                {
                    "category": name,
                    "channel": channel,
                    "wanted": decision.status is None,
                    "layer": decision.layer,
                    "rule": decision.rule,
                    "row": None if row is None else row_body(row),
                }
            )
    return {
        "user_id": user.user_id,
        "club_id": user.club_id,
        "channels": {channel: wanted is True for channel, wanted in by_channel.items()},
        "categories": {
            name: {channel: wanted is True for channel, wanted in _known(rule, known.in_category).items()}
            if isinstance(rule, Mapping)
            else rule is True
            for name, rule in by_category.items()
        },
        "quiet_hours": None if hours is None else {"start": f"{hours[0]:%H:%M}", "end": f"{hours[1]:%H:%M}"},
        "quiet_hours_row": None if person.quiet_hours_row is None else row_body(person.quiet_hours_row),
        "effective": effective,
        "texts": {
            name: {"titles": dict(found.titles), "descriptions": dict(found.descriptions)}
            for name in listed.values()
            if (found := category(name, user.club_id)).titles or found.descriptions
        },
        "changed_at": None if settings is None or settings.changed_at is None else time_of_ms(settings.changed_at),
        "pending": person.is_pending,
        "links": {"self": f"/v1/users/{user.user_id}/preferences"},
    }


def _known(rules: Any, names: frozenset[str]) -> dict[str, Any]:
    """Return the rules with known names."""
    if not isinstance(rules, Mapping):
        return {}
    return {name: rule for name, rule in read_names(rules, names).known.items() if rule is not None}


def user_id_of(text: str) -> int:
    """Return the user's id in a path. Raises Problem with status 400."""
    try:
        return parse_club_id(text)
    except ValueError as error:
        raise Problem(
            400,
            Text.USER_INVALID.filled(),
            errors=[FieldError("user_id", Text.UNUSABLE.filled(form=parse_club_id.form))],
        ) from error


def wishes_in(content: str | None) -> list[Wish | QuietHoursWish]:
    """Return the wishes in the body of a request. Raises Problem with status 400 that names each invalid field."""
    document = read_object(content)
    reader = _Reader()
    for name in document:
        if name not in _FIELDS:
            reader.refuse(name[:100], Text.FIELD_NOT_ALLOWED.filled(fields=", ".join(_FIELDS)))
    reader.read_channels(document.get("channels", {}), "channels", None)
    reader.read_categories(document.get("categories", {}))
    if "quiet_hours" in document:
        reader.read_quiet_hours(document["quiet_hours"])
    if not reader.wishes and not reader.errors:
        for name in _FIELDS:
            reader.refuse(name, Text.NO_RULE.filled())
    if reader.errors:
        raise invalid(reader.errors[:_MOST_ERRORS])
    return reader.wishes


def rules_in(content: str | None) -> tuple[dict[str, bool], dict[str, Any]]:
    """Return the rules for channels and for categories in the body of a request. Raises Problem with status 400 that
    names each invalid field.
    """
    document = read_object(content)
    reader = _Reader()
    for name in document:
        if name not in _RULES:
            reader.refuse(name[:100], Text.FIELD_NOT_ALLOWED.filled(fields=", ".join(_RULES)))
    reader.read_channels(document.get("channels", {}), "channels", None)
    reader.read_categories(document.get("categories", {}))
    if reader.errors:
        raise invalid(reader.errors[:_MOST_ERRORS])
    # A category without a channel has no rule.
    categories = {name: rule for name, rule in document.get("categories", {}).items() if rule != {}}
    return document.get("channels", {}), categories


class _Reader:
    """Collects wishes and errors."""

    def __init__(self) -> None:
        self.wishes: list[Wish | QuietHoursWish] = []
        self.errors: list[FieldError] = []

    def refuse(self, field: str, message: CodedText) -> None:
        self.errors.append(FieldError(field, message))

    def read_categories(self, value: Any) -> None:
        if not isinstance(value, dict):
            self.refuse("categories", Text.MUST_BE_OBJECT.filled())
            return
        known = categories()
        for name, rule in value.items():
            field = f"categories.{name[:100]}"
            if name not in known:
                self.refuse(field, Text.NO_CATEGORY.filled(categories=", ".join(known)))
            elif category(name).mandatory:
                self.refuse(field, Text.CATEGORY_MANDATORY.filled())
            elif isinstance(rule, bool):
                self.wishes.append(Wish(name, None, rule))
            else:
                self.read_channels(rule, field, name)

    def read_channels(self, value: Any, field: str, name: str | None) -> None:
        if not isinstance(value, dict):
            self.refuse(field, (Text.MUST_BE_OBJECT if name is None else Text.MUST_BE_BOOLEAN_OR_OBJECT).filled())
            return
        for channel, wanted in value.items():
            if channel not in CHANNELS:
                self.refuse(f"{field}.{channel[:100]}", Text.NO_CHANNEL.filled(channels=", ".join(CHANNELS)))
            elif not isinstance(wanted, bool):
                self.refuse(f"{field}.{channel}", Text.MUST_BE_BOOLEAN.filled())
            else:
                self.wishes.append(Wish(name, channel, wanted))

    def read_quiet_hours(self, value: Any) -> None:
        if value is None:
            self.wishes.append(QuietHoursWish(None, None))
            return
        if not isinstance(value, dict):
            self.refuse("quiet_hours", Text.QUIET_HOURS_FORM.filled())
            return
        errors = len(self.errors)
        for name in value:
            if name not in QuietHoursWish._fields:
                self.refuse(
                    f"quiet_hours.{name[:100]}", Text.FIELD_NOT_ALLOWED.filled(fields=", ".join(QuietHoursWish._fields))
                )
        for name in QuietHoursWish._fields:
            time = value.get(name)
            if not isinstance(time, str) or not _TIME.fullmatch(time):
                self.refuse(f"quiet_hours.{name}", Text.QUIET_HOURS_TIME.filled())
        if len(self.errors) == errors and value["start"] == value["end"]:
            self.refuse("quiet_hours.end", Text.QUIET_HOURS_EMPTY.filled())
        if len(self.errors) == errors:
            self.wishes.append(QuietHoursWish(value["start"], value["end"]))
