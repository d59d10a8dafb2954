"""The subscriptions of endpoints to events.

GET, POST /v1/subscriptions                       list those of an endpoint, and create one
GET, DELETE /v1/subscriptions/{subscription_id}   read and delete one

A subscription of another club's endpoint and an unknown one have the same response.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from masscomm.chain.publish_subscriptions import PublishSubscriptions
from masscomm.clock import Clock
from masscomm.domain.audit import Action
from masscomm.domain.events import is_path, is_pattern, is_unit
from masscomm.domain.limits import LARGEST_ID
from masscomm.domain.subscriptions import (
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
)
from masscomm.domain.webhooks import EndpointKey
from masscomm.http import parameters as parse
from masscomm.http.body import read_object, undefined_fields
from masscomm.http.endpoints import endpoint_key, unknown_endpoint
from masscomm.http.parameters import Reader
from masscomm.http.problem import FieldError, Problem, unusable
from masscomm.http.tenant import Clubs
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.subscriptions.port import Subscriptions, TooManySubscriptions
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints
from masscomm.texts import Text

PARAMETERS = ("endpoint_id",)


class SubscriptionFields(TypedDict):
    """A new subscription."""

    endpoint_id: str
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


class SubscriptionBody(TypedDict):
    """A subscription of an endpoint."""

    id: str
    endpoint_id: str
    types: list[str]
    club_ids: list[int] | None
    """Those that the caller may see; null: every tenant."""
    units: list[str]
    filter: dict[str, list[str | int | float | bool | None]]
    fields: list[str]
    """The paths in data that are sent; empty: all data."""


class SubscriptionsBody(TypedDict):
    """The subscriptions of an endpoint."""

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
        """Return the subscriptions of an endpoint. Raises Problem (400, 404) or Retry."""
        read = Reader(parameters, PARAMETERS)
        endpoint_id = read.single("endpoint_id", parse.words, required=True)
        read.check()
        key = self._endpoint(endpoint_id or "", clubs)
        return {"rows": [_body(each, clubs) for each in self.store.of_endpoint(key)]}

    def show(self, subscription_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> SubscriptionBody:
        """Return a subscription. Raises Problem (400 for any parameter, 404) or Retry."""
        Reader(parameters).check()
        return _body(self._visible(subscription_id, clubs), clubs)

    def create(self, content: str | None, clubs: Clubs, audit: Audit) -> SubscriptionBody:
        """Store and publish a subscription. A repeated request stores the same one.

        Raises Problem (400, 403, 404, 409) or Retry.
        """
        fields = read_object(content)
        errors = _wrong(fields)
        if errors:
            raise unusable(errors)
        endpoint = self._endpoint(fields["endpoint_id"], clubs)
        conditions: dict[str, Any] = {
            "types": tuple(dict.fromkeys(fields["types"])),
            "club_ids": _clubs(fields.get("club_ids"), clubs),
            "units": tuple(dict.fromkeys(fields.get("units", []))),
            "filter": fields.get("filter", {}),
            "fields": tuple(dict.fromkeys(fields.get("fields", []))),
        }
        subscription = Subscription(id=SubscriptionKey.new_id(endpoint, conditions), endpoint=endpoint, **conditions)
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
            clubs=[endpoint.club_id],
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
        audit(Action.SUBSCRIPTION_DELETED, subject=subscription_id, clubs=[subscription.endpoint.club_id])
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


def _wrong(fields: Mapping[str, Any]) -> list[FieldError]:
    """Return an error for each field that cannot be used, without the endpoint's."""
    errors = undefined_fields(fields, SubscriptionFields)
    if not isinstance(fields.get("endpoint_id"), str):
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
    club_ids = subscription.club_ids
    return {
        "id": subscription.id,
        "endpoint_id": subscription.endpoint.id,
        "types": list(subscription.types),
        # Somebody who may see further tenants may have made the subscription.
        "club_ids": None if club_ids is None else [each for each in club_ids if each in clubs],
        "units": list(subscription.units),
        "filter": {path: list(values) for path, values in subscription.filter.items()},
        "fields": list(subscription.fields),
    }
