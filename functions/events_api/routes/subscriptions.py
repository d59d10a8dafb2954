"""The subscriptions of endpoints to events, and the rules that make notifications of events.

GET, POST /v1/subscriptions                       list those of an endpoint, or the rules, and create one
POST /v1/subscriptions/matches                    list those that would match an event
GET, DELETE /v1/subscriptions/{subscription_id}   read and delete one

A subscription of another club's endpoint and an unknown one have the same response.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict, cast

from functions.events_api.routes.notifications import NotificationFields, own_types, rule_errors, rule_in
from masscomm.chain.publish_subscriptions import PublishSubscriptions
from masscomm.clock import Clock
from masscomm.decisions.event_matching import SubscriptionIndex
from masscomm.domain.audit import Action
from masscomm.domain.events import is_path, is_pattern, is_unit
from masscomm.domain.limits import LARGEST_ID
from masscomm.domain.records import EventOccurred
from masscomm.domain.subscriptions import (
    EVERY_CLUB,
    MAX_CLUBS,
    MAX_COMBINATIONS,
    MAX_FIELDS,
    MAX_FILTER_PATHS,
    MAX_FILTER_VALUES,
    MAX_PATTERNS,
    MAX_SUBSCRIPTIONS,
    MAX_UNITS,
    Subscription,
    SubscriptionKey,
    rules_of,
)
from masscomm.domain.webhooks import EndpointKey
from masscomm.http import parameters as parse
from masscomm.http.body import read_object, undefined_fields
from masscomm.http.endpoints import endpoint_key, unknown_endpoint
from masscomm.http.parameters import Reader
from masscomm.http.problem import FieldError, Problem, unusable
from masscomm.http.requested_clubs import seen
from masscomm.http.rest import Request
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.subscriptions.port import Subscriptions, TooManySubscriptions
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints
from masscomm.texts import Text

PARAMETERS = ("endpoint_id", "club_id")
# The clubs whose rules one request lists.
_MAX_LISTED_CLUBS = 100


class SubscriptionFields(TypedDict):
    """A new subscription. It has an endpoint, or a notification for users."""

    endpoint_id: NotRequired[str]
    types: list[str]
    """Event types, prefixes of whole parts such as `match.*`, or `*`."""
    club_ids: NotRequired[list[int]]
    """The tenants whose events match; missing: all that the caller may see now."""
    units: NotRequired[list[str]]
    """The units whose events match, each with the units below it; empty or missing: every unit."""
    filter: NotRequired[dict[str, list[str | int | float | bool | None]]]
    """A path in data, and the values that match; each path must match."""
    fields: NotRequired[list[str]]
    """The paths in data that are sent, such as player.id; empty or missing: all data."""
    notification: NotRequired[NotificationFields]
    """Each event becomes a send, with the permissions and limits of the caller at that time."""


class RefusedEventsBody(TypedDict):
    """The events of a rule that became no send, for one reason."""

    reason: str
    detail: str
    """Of the last event: the scope that is missing, or the limit."""
    events: int
    """Their number. An event whose processing is repeated may count again."""
    last_at: str


class SubscriptionBody(TypedDict):
    """A subscription."""

    id: str
    endpoint_id: str | None
    """Null: its events become notifications."""
    types: list[str]
    club_ids: list[int] | None
    """Those that the caller may see; null: every tenant."""
    units: list[str]
    filter: dict[str, list[str | int | float | bool | None]]
    fields: list[str]
    """The paths in data that are sent; empty: all data."""
    notification: NotificationFields | None
    owner: str | None
    """The API key or person whose permissions and limits apply to the notifications."""
    refused: list[RefusedEventsBody]
    """The events that became no send since the rule was created, the latest reason first."""


class SubscriptionsBody(TypedDict):
    """The subscriptions of an endpoint, or those whose events become notifications."""

    rows: list[SubscriptionBody]


class DeletedSubscriptionBody(TypedDict):
    """A deleted subscription."""

    id: str
    status: Literal["deleted"]


@dataclass(frozen=True, kw_only=True)
class SubscriptionsRoute:
    store: Subscriptions
    endpoints: WebhookEndpoints
    publishing: PublishSubscriptions
    clock: Clock

    def of_endpoint(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> SubscriptionsBody:
        """Return the subscriptions of an endpoint; without one, the rules of the caller's clubs. Raises Problem (400,
        403, 404) or Retry.
        """
        read = Reader(parameters, PARAMETERS)
        endpoint_id = read.single("endpoint_id", parse.words)
        club_id = read.single("club_id", parse_club_id)
        if endpoint_id is not None and club_id is not None:
            read.refuse("club_id", Text.NOT_WITH_ENDPOINT.filled())
        read.check()
        if endpoint_id is not None:
            keys = [self._endpoint(endpoint_id, clubs)]
        else:
            # guard: tenancy.listed_rules
            asked = seen(() if club_id is None else (club_id,), clubs)
            if len(asked) > _MAX_LISTED_CLUBS:
                raise unusable([FieldError("club_id", Text.CLUB_MISSING_OF_SEVERAL.filled())])
            keys = [rules_of(each) for each in asked or (EVERY_CLUB,)]
        return {"rows": [_body(each, clubs) for key in keys for each in self.store.of_endpoint(key)]}

    def matching(self, event: EventOccurred, clubs: Clubs) -> SubscriptionsBody:
        """Return the subscriptions of the endpoints of an event's club that match the event, and its rules; to a caller
        that sees every club also the rules for all. Raises Retry.
        """
        keys = [each.key for each in self.endpoints.of_club(event.club_id)] + [rules_of(event.club_id)]
        if clubs.every:  # guard: tenancy.matching_rules
            keys.append(rules_of(EVERY_CLUB))
        stored = [each for key in keys for each in self.store.of_endpoint(key)]
        return {"rows": [_body(each, clubs) for each in stored if _matches(each, event)]}

    def show(self, subscription_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> SubscriptionBody:
        """Return a subscription. Raises Problem (400 for any parameter, 404) or Retry."""
        Reader(parameters).check()
        return _body(self._visible(subscription_id, clubs), clubs)

    def create(self, request: Request, audit: Audit) -> SubscriptionBody:
        """Store and publish a subscription. A repeated request stores the same one.

        Raises Problem (400, 403, 404, 409) or Retry.
        """
        fields, clubs = read_object(request.text()), request.clubs
        errors = _wrong(fields)
        if errors:
            raise unusable(errors)
        conditions: dict[str, Any] = {
            "types": tuple(dict.fromkeys(fields["types"])),
            "club_ids": _clubs(fields.get("club_ids"), clubs),
            "units": tuple(dict.fromkeys(fields.get("units", []))),
            "filter": fields.get("filter", {}),
            "fields": tuple(dict.fromkeys(fields.get("fields", []))),
        }
        rule = None if "notification" not in fields else rule_in(fields["notification"], request)
        if rule is None:
            endpoint, identity = self._endpoint(fields["endpoint_id"], clubs), conditions
        else:
            endpoint, identity = _rules_of(conditions["club_ids"], clubs), conditions | {"notification": rule.body}
        id_ = SubscriptionKey.new_id(endpoint, identity)
        subscription = Subscription(id=id_, endpoint=endpoint, notification=rule, **conditions)
        if subscription.combinations > MAX_COMBINATIONS:
            problem = Text.SUBSCRIPTION_TOO_LARGE.filled(
                combinations=subscription.combinations, maximum=MAX_COMBINATIONS
            )
            raise unusable([FieldError("", problem)])
        try:
            change = self.store.put(subscription, self.clock.now_ms())
        except TooManySubscriptions as error:
            raise Problem(409, Text.SUBSCRIPTIONS_TOO_MANY.filled(maximum=MAX_SUBSCRIPTIONS)) from error
        audit(
            Action.SUBSCRIPTION_CREATED,
            subject=subscription.id,
            clubs=[endpoint.club_id or None],
            detail=", ".join(subscription.types)[:200],
        )
        self.publishing.publish(change)
        return _body(subscription, clubs)

    def delete(self, subscription_id: str, clubs: Clubs, audit: Audit) -> DeletedSubscriptionBody:
        """Delete a subscription. Raises Problem with status 404, or Retry."""
        subscription = self._visible(subscription_id, clubs)
        key = SubscriptionKey(subscription.endpoint, subscription.id)
        change = self.store.delete(key, self.clock.now_ms())
        if change is None:
            raise Problem(404, Text.SUBSCRIPTION_UNKNOWN.filled())
        audit(Action.SUBSCRIPTION_DELETED, subject=subscription_id, clubs=[subscription.endpoint.club_id or None])
        self.publishing.publish(change)
        return {"id": subscription_id, "status": "deleted"}

    def _endpoint(self, endpoint_id: str, clubs: Clubs) -> EndpointKey:
        """Return the key of an endpoint of the caller's clubs. Raises Problem with status 404."""
        key = endpoint_key(endpoint_id, clubs)
        if self.endpoints.find(key) is None:
            raise unknown_endpoint()
        return key

    def _visible(self, subscription_id: str, clubs: Clubs) -> Subscription:
        """Return a subscription of an endpoint of the caller's clubs. Raises Problem with status 404."""
        key = SubscriptionKey.of_id(subscription_id)
        # guard: tenancy.subscription
        found = None if key is None or key.endpoint.club_id not in clubs else self.store.find(key)
        if found is None:
            raise Problem(404, Text.SUBSCRIPTION_UNKNOWN.filled())
        return found


def _matches(subscription: Subscription, event: EventOccurred) -> bool:
    """Return whether event_matcher would match an event. An index of one subscription needs little memory."""
    index = SubscriptionIndex([subscription])
    return bool(index.match(event) or index.rules(event))


def _clubs(asked: list[int] | None, clubs: Clubs) -> tuple[int, ...] | None:
    """Return the clubs of a new subscription; None for every club. Raises Problem with status 403 or 400."""
    if asked is None:
        if len(clubs.ids) > MAX_CLUBS:
            raise unusable([FieldError("club_ids", Text.CLUB_MISSING_OF_SEVERAL.filled())])
        return None if clubs.every else tuple(sorted(clubs.ids))
    # guard: tenancy.subscribed_clubs
    if others := [str(club_id) for club_id in asked if club_id not in clubs]:
        message = Text.CLUBS_NOT_SEEN.filled(clubs=", ".join(others[:100]))
        raise Problem(403, Text.CLUB_NOT_PERMITTED.filled(), errors=[FieldError("club_ids", message)])
    return tuple(sorted(set(asked)))


def _rules_of(club_ids: tuple[int, ...] | None, clubs: Clubs) -> EndpointKey:
    """Return the key of the rules of a club, or of those for several. Raises Problem with status 400."""
    if club_ids is not None and len(club_ids) == 1:
        return rules_of(club_ids[0])
    # A caller of one of the clubs would see and delete what concerns the others.
    if not clubs.every:  # guard: tenancy.rules_of_several_clubs
        raise unusable([FieldError("club_ids", Text.RULE_CLUBS.filled())])
    return rules_of(EVERY_CLUB)


def _wrong(fields: Mapping[str, Any]) -> list[FieldError]:
    """Return an error for each field that cannot be used, without the endpoint's."""
    errors = undefined_fields(fields, SubscriptionFields)
    if "notification" in fields:
        errors += rule_errors(fields["notification"])
        others = [name for name in ("endpoint_id", "fields") if name in fields]
        errors += [FieldError(name, Text.ENDPOINT_AND_NOTIFICATION.filled()) for name in others]
        if isinstance(fields.get("types"), list) and (own := own_types(fields["types"])):  # guard: rules.own_types
            errors.append(FieldError("types", Text.RULE_OWN_TYPES.filled(types=", ".join(own))))
    elif "endpoint_id" not in fields:
        errors += [FieldError(name, Text.MISSING.filled()) for name in ("endpoint_id", "notification")]
    elif not isinstance(fields["endpoint_id"], str):
        errors.append(FieldError("endpoint_id", Text.TYPE_TEXT.filled()))
    types, units, club_ids = fields.get("types"), fields.get("units", []), fields.get("club_ids")
    if not isinstance(types, list) or not 1 <= len(types) <= MAX_PATTERNS or not all(map(is_pattern, types)):
        errors.append(FieldError("types", Text.PATTERNS_LIST.filled(maximum=MAX_PATTERNS)))
    if not isinstance(units, list) or len(units) > MAX_UNITS or not all(map(is_unit, units)):
        errors.append(FieldError("units", Text.UNITS_LIST.filled(maximum=MAX_UNITS)))
    if "club_ids" in fields and (
        not isinstance(club_ids, list)
        or not 1 <= len(club_ids) <= MAX_CLUBS
        or not all(type(each) is int and 1 <= each <= LARGEST_ID for each in club_ids)
    ):
        errors.append(FieldError("club_ids", Text.MUST_BE_CLUB.filled()))
    if not _is_filter(fields.get("filter", {})):
        errors.append(FieldError("filter", Text.FILTER_FORM.filled(maximum=MAX_FILTER_PATHS)))
    paths = fields.get("fields", [])
    if not isinstance(paths, list) or len(paths) > MAX_FIELDS or not all(map(is_path, paths)):
        errors.append(FieldError("fields", Text.PATHS_LIST.filled(maximum=MAX_FIELDS)))
    return errors


def _is_filter(found: Any) -> bool:
    if not isinstance(found, dict) or len(found) > MAX_FILTER_PATHS:
        return False
    return all(
        is_path(path)
        and isinstance(values, list)
        and 0 < len(values) <= MAX_FILTER_VALUES
        and all(value is None or isinstance(value, str | int | float) for value in values)
        for path, values in found.items()
    )


def _body(subscription: Subscription, clubs: Clubs) -> SubscriptionBody:
    club_ids, rule = subscription.club_ids, subscription.notification
    return {
        "id": subscription.id,
        "endpoint_id": None if rule is not None else subscription.endpoint.id,
        "types": list(subscription.types),
        # A caller who may see further tenants may have made the subscription.
        "club_ids": None if club_ids is None else [each for each in club_ids if each in clubs],
        "units": list(subscription.units),
        "filter": {path: list(values) for path, values in subscription.filter.items()},
        "fields": list(subscription.fields),
        "notification": None if rule is None else cast(NotificationFields, rule.body),
        "owner": None if rule is None else rule.owner.principal,
        "refused": [
            {
                "reason": each.reason,
                "detail": each.detail,
                "events": each.events,
                "last_at": parse.time_of_ms(each.last_at_ms),
            }
            for each in subscription.refused
        ],
    }
