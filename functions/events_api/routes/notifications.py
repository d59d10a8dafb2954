"""Reads the rule of a subscription whose events become notifications."""

import re
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from masscomm.domain import categories
from masscomm.domain.categories import is_listed, is_retired, passes_opt_outs_of
from masscomm.domain.channels import CHANNELS, are_channels
from masscomm.domain.events import MAX_PATH, OWN_TYPES, is_path
from masscomm.domain.key_limits import COUNTED_UNDER, RECIPIENTS
from masscomm.domain.limits import FIELDS_OF_SEND
from masscomm.domain.notification_rules import RECIPIENTS as RECIPIENT_FIELDS
from masscomm.domain.notification_rules import NotificationRule, Owner, audience_of_unit
from masscomm.domain.push_options import push_problems
from masscomm.http.audiences import audience_of
from masscomm.http.body import undefined_fields
from masscomm.http.problem import FieldError
from masscomm.http.rest import Request
from masscomm.http.scopes import SCOPES
from masscomm.http.send_scopes import scopes_of_rule
from masscomm.http.tenant import CLUB_IDS, EVERY_CLUB
from masscomm.texts import CodedText, Text

# The parts of an authorizer's context that a rule keeps.
_KEPT = (CLUB_IDS, EVERY_CLUB, SCOPES, "mode", COUNTED_UNDER, RECIPIENTS.setting)

# The errors of the options of pushes that a response has.
_MOST_OF_PUSH = 10


class NotificationFields(TypedDict):
    """What users receive of each event. It has one of users_path, audience and unit_attribute."""

    type: str
    """The category."""
    channels: NotRequired[list[str]]
    """Missing: those of the category."""
    template: NotRequired[str]
    """The type of the template, if it differs from the category."""
    locale: NotRequired[str]
    data: NotRequired[dict[str, str]]
    """The name of a variable, and the path of its value in the event's data."""
    push: NotRequired[dict[str, Any]]
    """The options of the pushes, as in a send."""
    users_path: NotRequired[str]
    """The path in data of a user id, or of a list of user ids."""
    audience: NotRequired[dict[str, Any]]
    """Users by conditions."""
    unit_attribute: NotRequired[str]
    """The attribute of users that has the event's unit."""


def rule_in(fields: Any, request: Request) -> NotificationRule:
    """Return the rule in a member of a request without errors. Raises Problem with status 403."""
    given = request.authorizer if isinstance(request.authorizer, Mapping) else {}
    context = {name: str(given[name]) for name in _KEPT if given.get(name) is not None}
    rule = NotificationRule.of_body(fields, Owner(principal=request.principal, context=context))
    for scope in sorted(scopes_of_rule(rule)):
        request.require(scope)
    return rule


def rule_errors(fields: Any) -> list[FieldError]:
    """Return an error for each field of a rule that cannot be used."""
    if not isinstance(fields, dict):
        return [FieldError("notification", Text.MUST_BE_OBJECT.filled())]
    errors = undefined_fields(fields, NotificationFields)
    wrong: dict[str, CodedText] = {}
    category, template = fields.get("type"), fields.get("template")
    if not isinstance(category, str) or not is_listed(category):
        wrong["type"] = Text.CATEGORY_UNKNOWN.filled()
    elif is_retired(category):
        wrong["type"] = Text.CATEGORY_RETIRED.filled()
    elif "users_path" not in fields and categories.category(category).critical:
        wrong["type"] = Text.AUDIENCE_OF_CRITICAL.filled()
    for name in ("template", "locale"):
        if name in fields and not _matches(name, fields[name]):
            wrong[name] = Text.TEXT_PATTERN.filled(pattern=FIELDS_OF_SEND[name].pattern or "")
    if not wrong and passes_opt_outs_of(str(category), template):
        wrong["template"] = Text.TEMPLATE_OF_OPTIONAL.filled()
    channels = fields.get("channels", [])
    if isinstance(channels, list) and any(isinstance(each, dict) and "if" in each for each in channels):
        wrong["channels"] = Text.FALLBACK_OF_RULE.filled()
    elif not are_channels(channels):
        wrong["channels"] = Text.MUST_BE_LIST_OF_SOME.filled(choices=", ".join(CHANNELS))
    if not _are_variables(fields.get("data", {})):
        wrong["data"] = Text.VARIABLES_FORM.filled(maximum=FIELDS_OF_SEND["data"].entries or 0)
    errors += [FieldError(name, problem) for name, problem in wrong.items()]
    if "push" in fields:
        problems = push_problems(fields["push"])[:_MOST_OF_PUSH]
        errors += [FieldError(f"push.{each.path}".rstrip("."), each.message) for each in problems]
    errors += _recipient_errors(fields)
    return [FieldError(f"notification.{each.field}".rstrip("."), each.message) for each in errors]


def own_types(patterns: Any) -> list[str]:
    """Return the patterns that name masscomm's own events only, which no rule matches."""
    return [each for each in patterns if isinstance(each, str) and each.partition(".")[0] in OWN_TYPES]


def _recipient_errors(fields: Mapping[str, Any]) -> list[FieldError]:
    given = [name for name in RECIPIENT_FIELDS if name in fields]
    if len(given) != 1:
        return [FieldError("", Text.RULE_RECIPIENTS.filled())]
    (name,) = given
    if name == "audience":
        return audience_of(fields[name])[1]
    if not is_path(fields[name]):
        return [FieldError(name, Text.MUST_BE_TEXT.filled(maximum=MAX_PATH))]
    if name == "unit_attribute":
        return [FieldError(name, each.message) for each in audience_of(audience_of_unit(fields[name], "100"))[1]]
    return []


def _matches(name: str, value: Any) -> bool:
    limit = FIELDS_OF_SEND[name]
    is_short = isinstance(value, str) and len(value) <= (limit.characters or 0)
    return is_short and re.fullmatch(limit.pattern or "", value) is not None


def _are_variables(value: Any) -> bool:
    limit = FIELDS_OF_SEND["data"]
    if not isinstance(value, dict) or len(value) > (limit.entries or 0):
        return False
    return all(0 < len(name) <= (limit.key_characters or 0) and is_path(path) for name, path in value.items())
