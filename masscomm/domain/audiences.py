"""Audiences: the recipients of a send as conditions about the users of its tenant, instead of a list of ids.

    {"where": {"all": [{"field": "locale", "is": "de"}, {"field": "attributes.plan", "in": ["pro", "team"]}]},
     "except_users": [42]}
    {"all_users": true}
    {"follows": "team:42", "where": {"field": "locale", "is": "de"}}

docs/audiences.md has the grammar as a table. A condition is evaluated on the directory's row of a user, whose tenant is
always that of the send: no condition can name a tenant.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from masscomm.domain.limits import FOLLOWS_PATTERN, LARGEST_ID
from masscomm.domain.locales import read_locale
from masscomm.domain.names import folded
from masscomm.domain.setting_names import SettingNames, setting_names, setting_under
from masscomm.domain.source_tables import MEMBERSHIPS, is_mapped, source_tables
from masscomm.domain.time_zones import zone_form
from masscomm.domain.users import User, UserSettings
from masscomm.texts import CodedText, Text

# The limits of an audience. Each user of the tenant is compared with each condition.
MAX_DEPTH = 5
MAX_CONDITIONS = 50
MAX_VALUES = 1_000
MAX_TEXT = 255
MAX_EXCEPTIONS = 10_000
_MAX_ERRORS = 20

ATTRIBUTES, SETTINGS = "attributes.", "settings."
# The columns of a user that conditions may compare, and the form that all names of one value share.
_COMPARED: Mapping[str, Callable[[str], Hashable]] = {
    "locale": read_locale,  # guard: audiences.names_of_a_locale
    "time_zone": zone_form,  # guard: audiences.names_of_a_zone
}
# Personal data: conditions may only test whether the user has it, so that no caller can search for a person.
PERSONAL = ("first_name", "last_name", "email", "phone")
_JOINS = ("all", "any", "not")
_OPERATORS = ("is", "in", "before", "after", "exists")

type Condition = Callable[[User, UserSettings | None], bool]


class AudienceError(NamedTuple):
    """An invalid part of an audience."""

    # The path of the part, such as `where.all[0].field`; "" for the audience itself.
    path: str
    message: CodedText


@dataclass(frozen=True, kw_only=True)
class Audience:
    """The users of a tenant that match a condition, or those of them that follow an object, without the exceptions."""

    condition: Condition = field(default=lambda _user, _settings: True)
    except_users: frozenset[int] = frozenset()
    # The fields that the condition reads, such as `attributes.plan`.
    fields: frozenset[str] = frozenset()
    # The object that the users follow, such as `team:42`; None: they need not follow any.
    follows: str | None = None
    # The JSON value that the audience was read from.
    document: Any = None

    @property
    def reads_settings(self) -> bool:
        """Whether the condition reads user settings."""
        return any(name.startswith(SETTINGS) for name in self.fields)

    def has(self, user: User, settings: UserSettings | None) -> bool:
        # guard: audiences.exceptions
        return user.user_id not in self.except_users and self.condition(user, settings)


def read_audience(
    value: Any,
    *,
    attributes: Collection[str] | None = None,
    settings: SettingNames | None = None,
    checks_categories: bool = True,
) -> tuple[Audience, list[AudienceError]]:
    """Return the audience in a JSON value, and its errors, at most 20. With errors, the audience must not be used.

    Args:
        value: The JSON value.
        attributes: The attributes of users; None: those of schemas/source.yaml.
        settings: The names in user settings; None: those of the categories and schemas/source.yaml.
        checks_categories: Whether the categories must be known; else a caller has checked them.
    """
    known = source_tables()["users"].attributes if attributes is None else attributes
    names = settings or setting_names()
    reader = _Reader(known, {"channels": names.channels, "categories": names.categories if checks_categories else None})
    return reader.audience(value), reader.errors[:_MAX_ERRORS]


def _nobody(_user: User, _settings: UserSettings | None) -> bool:
    return False


class _Reader:
    """Reads one audience, and collects its errors."""

    def __init__(self, attributes: Collection[str], names: Mapping[str, Collection[str] | None]) -> None:
        self._attributes = attributes
        # The kinds of settings with their known names; None: all are permitted.
        self._names = names
        self.errors: list[AudienceError] = []
        self._conditions = 0
        self._fields: set[str] = set()

    def audience(self, value: Any) -> Audience:
        if not isinstance(value, Mapping):
            self._error("", Text.MUST_BE_OBJECT.filled())
            return Audience(condition=_nobody)
        for name in value.keys() - {"all_users", "follows", "where", "except_users"}:
            self._error(str(name)[:MAX_TEXT], Text.AUDIENCE_MEMBER.filled())
        condition: Condition = lambda _user, _settings: True  # noqa: E731
        # An empty audience is refused, because it may be a mistake, and would notify every user.
        given = value.keys() & {"all_users", "follows", "where"}
        if given not in ({"all_users"}, {"follows"}, {"where"}, {"follows", "where"}):
            self._error("where", Text.AUDIENCE_EMPTY.filled())
        elif "where" in value:
            condition = self._condition(value["where"], "where", 1)
        elif "all_users" in value and value["all_users"] is not True:
            self._error("all_users", Text.MUST_BE_TRUE.filled())
        return Audience(
            follows=self._follows(value["follows"]) if "follows" in value else None,
            condition=condition,
            except_users=self._exceptions(value.get("except_users", [])),
            fields=frozenset(self._fields),
            document=value,
        )

    def _follows(self, value: Any) -> str | None:
        if not isinstance(value, str) or not re.fullmatch(FOLLOWS_PATTERN, value):
            self._error("follows", Text.FOLLOWS_FORM.filled())
            return None
        if not is_mapped(MEMBERSHIPS):  # guard: follows.unmapped
            self._error("follows", Text.FOLLOWS_UNMAPPED.filled())
        return value

    def _exceptions(self, value: Any) -> frozenset[int]:
        if not isinstance(value, list) or len(value) > MAX_EXCEPTIONS:
            self._error("except_users", Text.AUDIENCE_EXCEPTIONS.filled(maximum=MAX_EXCEPTIONS))
            return frozenset()
        for index, each in enumerate(value):
            if isinstance(each, bool) or not isinstance(each, int) or not 1 <= each <= LARGEST_ID:
                self._error(f"except_users[{index}]", Text.AUDIENCE_EXCEPTION.filled())
                return frozenset()
        return frozenset(value)

    def _condition(self, value: Any, path: str, depth: int) -> Condition:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            if self._conditions == MAX_CONDITIONS + 1:
                self._error("where", Text.AUDIENCE_CONDITIONS.filled(maximum=MAX_CONDITIONS))
            return _nobody
        if depth > MAX_DEPTH:
            self._error(path, Text.AUDIENCE_TOO_DEEP.filled(maximum=MAX_DEPTH))
            return _nobody
        if not isinstance(value, Mapping):
            self._error(path, Text.MUST_BE_OBJECT.filled())
            return _nobody
        joins = [name for name in _JOINS if name in value]
        if not joins:
            return self._comparison(value, path)
        if len(value) > 1:
            self._error(path, Text.AUDIENCE_JOIN.filled(join=joins[0]))
            return _nobody
        return self._joined(joins[0], value[joins[0]], f"{path}.{joins[0]}", depth)

    def _joined(self, join: str, value: Any, path: str, depth: int) -> Condition:
        if join == "not":
            inner = self._condition(value, path, depth + 1)
            return lambda user, settings: not inner(user, settings)
        if not isinstance(value, list) or not value:
            self._error(path, Text.AUDIENCE_JOINED.filled())
            return _nobody
        conditions = [self._condition(each, f"{path}[{index}]", depth + 1) for index, each in enumerate(value)]
        quantifier = all if join == "all" else any
        return lambda user, settings: quantifier(each(user, settings) for each in conditions)

    def _comparison(self, value: Mapping[str, Any], path: str) -> Condition:
        for name in value.keys() - {"field", *_OPERATORS}:
            self._error(f"{path}.{name}"[:MAX_TEXT], Text.MEMBER_UNKNOWN.filled())
        operators = [name for name in _OPERATORS if name in value]
        if len(operators) != 1:
            self._error(path, Text.AUDIENCE_OPERATOR.filled(operators=", ".join(_OPERATORS), joins=", ".join(_JOINS)))
        read = self._field(value.get("field"), f"{path}.field", operators)
        if len(operators) != 1:
            return _nobody
        operator, given = operators[0], value[operators[0]]
        form = _COMPARED.get(value["field"], str) if isinstance(value.get("field"), str) else str
        compare = self._compared(operator, given, f"{path}.{operator}", form)
        return lambda user, settings: compare(read(user, settings))

    def _field(self, name: Any, path: str, operators: Sequence[str]) -> Callable[[User, UserSettings | None], Any]:
        """Return the function that reads a field of a user."""
        self._fields.add(str(name))
        match name:
            case str() if name in _COMPARED:
                return lambda user, _: getattr(user, name)
            case str() if name in PERSONAL:
                if operators not in ([], ["exists"]):
                    self._error(path, Text.AUDIENCE_PERSONAL.filled(field=name))
                return lambda user, _: getattr(user, name) or None
            case str() if name.startswith(ATTRIBUTES):
                attribute = name.removeprefix(ATTRIBUTES)
                if attribute not in self._attributes:
                    known = ", ".join(sorted(self._attributes))
                    self._error(
                        path,
                        Text.AUDIENCE_ATTRIBUTE.filled(attributes=known)
                        if known
                        else Text.AUDIENCE_NO_ATTRIBUTES.filled(),
                    )
                return lambda user, _: user.attributes.get(attribute)
            case str() if name.startswith(SETTINGS):
                return self._setting(name.removeprefix(SETTINGS), path)
        self._error(path, Text.AUDIENCE_FIELD.filled(fields=", ".join((*_COMPARED, *PERSONAL))))
        return lambda _user, _settings: None

    def _setting(self, name: str, path: str) -> Callable[[User, UserSettings | None], Any]:
        kind, _, key = name.partition(".")
        if kind in self._names and key:
            # A name that no settings have would match no user, and every user under `not`.
            names = self._names[kind]
            if names is not None and folded(key) not in names:  # guard: audiences.unknown_setting
                known = ", ".join(sorted(names))
                self._error(path, Text.AUDIENCE_SETTING_NAME.filled(kind=kind, names=known))
            return lambda _, settings: _entry(None if settings is None else getattr(settings, kind), key)
        if name == "quiet_hours":
            return lambda _, settings: None if settings is None else settings.quiet_hours
        self._error(path, Text.AUDIENCE_SETTING.filled())
        return lambda _user, _settings: None

    def _compared(self, operator: str, given: Any, path: str, form: Callable[[str], Hashable]) -> Callable[[Any], bool]:
        match operator:
            case "exists":
                if not isinstance(given, bool):
                    self._error(path, Text.MUST_BE_BOOLEAN.filled())
                return lambda found: (found is not None) is given
            case "is":
                return self._one_of([given], lambda _: path, form)
            case "in":
                if not isinstance(given, list) or not 1 <= len(given) <= MAX_VALUES:
                    self._error(path, Text.AUDIENCE_VALUES.filled(maximum=MAX_VALUES))
                    return lambda _: False
                return self._one_of(given, lambda index: f"{path}[{index}]", form)
        return self._ordered(operator, given, path)

    def _one_of(
        self, values: Sequence[Any], path_of: Callable[[int], str], form: Callable[[str], Hashable]
    ) -> Callable[[Any], bool]:
        wanted: defaultdict[_Kind, set[Hashable]] = defaultdict(set)
        for index, each in enumerate(values):
            if not _is_scalar(each) or (isinstance(each, str) and len(each) > MAX_TEXT):
                self._error(path_of(index), Text.AUDIENCE_VALUE.filled(maximum=MAX_TEXT))
                return lambda _: False
            kind, value = _given(each)
            wanted[kind].add(form(each) if kind is _text else value)

        def compare(found: Any) -> bool:
            for kind, values in wanted.items():
                value = kind(found)
                if value is not None and (form(found) if kind is _text else value) in values:
                    return True
            return False

        return compare

    def _ordered(self, operator: str, given: Any, path: str) -> Callable[[Any], bool]:
        kind, limit = _given(given) if _is_scalar(given) else (_text, given)
        if kind not in (_number, _time):
            self._error(path, Text.AUDIENCE_ORDERED.filled())
            return lambda _: False

        def compare(found: Any) -> bool:
            value = kind(found)
            return value is not None and bool(value < limit if operator == "before" else value > limit)

        return compare

    def _error(self, path: str, message: CodedText) -> None:
        self.errors.append(AudienceError(path, message))


def _entry(settings: Any, name: str) -> Any:
    """Return an entry of a user's settings, which are a customer's JSON."""
    if not isinstance(settings, Mapping):
        return None
    return setting_under(settings, name)  # guard: audiences.spelling_of_a_setting


def _is_scalar(value: Any) -> bool:
    """Return whether a value can be compared and written as JSON, which has no infinity: Python reads 1e400 as one."""
    return isinstance(value, str | int | float) and not (isinstance(value, float) and not math.isfinite(value))


# A number of PostgreSQL's type numeric, which is a text in the directory.
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?")
_DAY_OR_TIME = re.compile(r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d.*)?")

# The kind of a condition's value: it reads a user's value as one of its kind; None if that is impossible. Operators
# compare values of one kind, so that those that are neither before nor after each other are equal.
type _Kind = Callable[[Any], Any]


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: Any) -> Decimal | None:
    """Return a number, also of a text. A float would round 64-bit ids, and 0.1 as a float is not the text 0.1."""
    if isinstance(value, str):
        return Decimal(value) if _NUMBER.fullmatch(value) else None  # guard: audiences.number_in_a_text
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_scalar(value):
        return None
    return Decimal(value) if isinstance(value, int) else Decimal(str(value))


def _time(value: Any) -> datetime | None:
    """Return a time. A day is its first moment; a time without a zone is UTC."""
    if not isinstance(value, str) or not _DAY_OR_TIME.fullmatch(value):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _given(value: Any) -> tuple[_Kind, Any]:
    """Return the kind of a condition's value, and the value. A text is a number only in a user's row."""
    kinds: Sequence[_Kind] = (_time, _text) if isinstance(value, str) else (_truth, _number)
    return next((kind, read) for kind in kinds if (read := kind(value)) is not None)
