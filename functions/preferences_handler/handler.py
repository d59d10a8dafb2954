"""The preferences_handler function: it serves users and their preferences, and produces changed preferences for the
monolith. The users_stream function, from the same package, serves the long poll of a user.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from masscomm.clock import SystemClock
from masscomm.http import rest
from masscomm.http.conditions import Conditions, tagged
from masscomm.http.problem import FieldError, Problem
from masscomm.http.rest import Response
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.operations.bootstrap import audit_log, limiter, rest_api
from masscomm.stores.categories.known import known_categories
from masscomm.texts import Text

if TYPE_CHECKING:
    from functions.preferences_handler.preferences_body import PreferencesBody
    from functions.preferences_handler.read_users import ReadUsers
    from functions.preferences_handler.tenant_preferences import TenantPreferencesRoute
    from functions.preferences_handler.unsubscribe import Unsubscribe
    from functions.preferences_handler.user_body import UserBody
    from masscomm.directory.change_preferences import ChangePreferences
    from masscomm.directory.port import Directory
    from masscomm.domain.unsubscribe_tokens import Subscription
    from masscomm.stores.audit_log.port import Audit

logger = logs.logger("preferences_handler")
# The largest number of unknown parameters that a problem names.
_MOST_ERRORS = 20


api = rest_api(logger, retry_after_s=5)


@cache
def directory() -> "Directory":
    from masscomm.directory.chosen import directory_from_environment

    return directory_from_environment()


@cache
def bootstrap() -> "ChangePreferences":
    from masscomm.directory.bulk_writes import connect_from_environment
    from masscomm.directory.change_preferences import ChangePreferences
    from masscomm.directory.document_publisher import OpenSearchDocumentPublisher
    from masscomm.directory.preference_changes import OpenSearchPreferenceChanges
    from masscomm.kafka.avro import Codec, HttpSchemaRegistry
    from masscomm.kafka.producer import KafkaProducer

    client, codec = connect_from_environment(), Codec(HttpSchemaRegistry.from_environment())
    producer = KafkaProducer.from_environment()
    return ChangePreferences(
        directory=directory(),
        changes=OpenSearchPreferenceChanges(client),
        publisher=OpenSearchDocumentPublisher(client, codec, producer),
        codec=codec,
        producer=producer,
        clock=SystemClock(),
    )


@cache
def reading() -> "ReadUsers":
    """Return the use cases that read. They need no Kafka."""
    from functions.preferences_handler.read_users import ReadUsers
    from masscomm.operations.waiting import Waiting

    clock = SystemClock()
    return ReadUsers(directory=directory(), audit_log=audit_log(), clock=clock, waiting=Waiting.from_environment(clock))


@cache
def tenant_preferences() -> "TenantPreferencesRoute":
    from functions.preferences_handler.tenant_preferences import TenantPreferencesRoute
    from masscomm.directory.bulk_writes import connect_from_environment
    from masscomm.directory.tenant_preference_store import OpenSearchTenantPreferences

    return TenantPreferencesRoute(
        directory=directory(),
        store=OpenSearchTenantPreferences(connect_from_environment()),
        publisher=bootstrap().publisher,
        clock=SystemClock(),
    )


@cache
def unsubscribe() -> "Unsubscribe":
    from functions.preferences_handler.unsubscribe import Unsubscribe
    from masscomm.channels.unsubscribe_links import UnsubscribeLinks
    from masscomm.domain.email_settings import email_table

    emails = email_table()

    def sender(subscription: "Subscription") -> str:
        return emails.club(subscription.club_id).of(subscription.category, is_mandatory=False).name

    return Unsubscribe(
        links=UnsubscribeLinks.from_environment(SystemClock()),
        preferences=bootstrap(),
        limiter=limiter(),
        sender=sender,
    )


@api.get("/v1/users")
def get_users(request: rest.Request) -> Response:
    """The users of a tenant, by id."""
    return rest.uncached(reading().page(request.parameters, request.clubs, request.principal))


@api.get("/v1/users/{user_id}")
def get_user(request: rest.Request, user_id: str) -> Response:
    """A user with the devices, as the directory has them."""
    from functions.preferences_handler.preferences_body import user_id_of

    _check_parameters(request)
    known_categories().read()
    return _answer(reading().user(user_id_of(user_id), request.clubs, request.principal))


@api.get("/v1/users/{user_id}/stream")
def get_user_stream(request: rest.Request, user_id: str) -> Response:
    """Wait until a user has changed in the directory."""
    from functions.preferences_handler.preferences_body import user_id_of

    known_categories().read()
    return rest.uncached(reading().stream(user_id_of(user_id), request))


@api.get("/v1/users/{user_id}/preferences")
def get_preferences(request: rest.Request, user_id: str) -> Response:
    """A user's preferences, as they apply now."""
    from functions.preferences_handler.preferences_body import user_id_of

    _check_parameters(request)
    known_categories().read()
    return _answer(reading().preferences(user_id_of(user_id), request.clubs, request.principal))


@api.put("/v1/users/{user_id}/preferences")
def put_preferences(request: rest.Request, user_id: str) -> Response:
    """Set some of a user's preferences, which apply to the next notification."""
    from functions.preferences_handler.preferences_body import preferences_body, user_id_of, wishes_in
    from masscomm.domain.preference_changes import API

    _check_parameters(request)
    known_categories().read()
    user, wishes = user_id_of(user_id), wishes_in(request.text())
    changed = bootstrap().change(user, request.clubs, wishes, source=API, principal=request.principal)
    return _answer(None if changed is None else preferences_body(changed))


@api.get("/v1/tenants/{tenant}/preferences")
def get_tenant_preferences(request: rest.Request, tenant: str) -> Response:
    """The rules of a tenant, which apply to users without a rule."""
    _check_parameters(request)
    return tagged(tenant_preferences().show(tenant, request.clubs))


@api.put("/v1/tenants/{tenant}/preferences")
def put_tenant_preferences(request: rest.Request, tenant: str) -> Response:
    """Replace the rules of a tenant."""
    _check_parameters(request)
    known_categories().read()
    conditions = Conditions.of(request)
    return tagged(tenant_preferences().put(tenant, request.text(), request.clubs, _audit(request), conditions))


@api.delete("/v1/tenants/{tenant}/preferences")
def delete_tenant_preferences(request: rest.Request, tenant: str) -> Response:
    """Remove the rules of a tenant."""
    _check_parameters(request)
    return tagged(tenant_preferences().delete(tenant, request.clubs, _audit(request), Conditions.of(request)))


@api.get("/v1/unsubscribe/{token}")
def get_unsubscribe(request: rest.Request, token: str) -> Response:
    """The page of an unsubscribe link, with a button. The request changes nothing."""
    known_categories().refresh()
    return unsubscribe().page(request, token)


@api.post("/v1/unsubscribe/{token}")
def post_unsubscribe(request: rest.Request, token: str) -> Response:
    """Unsubscribe the recipient of a link from the category of its e-mail (RFC 8058)."""
    known_categories().refresh()
    return unsubscribe().act(request, token)


def _audit(request: rest.Request) -> "Audit":
    from masscomm.stores.audit_log.port import PrincipalAudit

    return PrincipalAudit(
        audit_log=reading().audit_log, clock=SystemClock(), logger=logger, principal=request.principal
    )


def _check_parameters(request: rest.Request) -> None:
    if names := sorted(request.parameters):
        errors = [FieldError(name[:100], Text.PARAMETERS_NONE.filled()) for name in names[:_MOST_ERRORS]]
        raise Problem(400, Text.NO_PARAMETERS.filled(parameters=", ".join(names)[:200]), errors=errors)


def _answer(body: "PreferencesBody | UserBody | None") -> Response:
    # A user of another club and an unknown user have the same response.
    if body is None:
        raise Problem(404, Text.USER_UNKNOWN.filled())
    logs.note(club_id=body["club_id"])
    return rest.uncached(body)


@observed(logger, ahead=(*ON_KAFKA, "masscomm.stores.audit_log.dynamodb"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an API Gateway REST proxy event and return its response. An event of an SES receipt rule unsubscribes, a
    scheduled event produces the changes that are stored and not produced.
    """
    if "httpMethod" in event:
        return api.answer(event, context)
    if "Records" in event:
        known_categories().refresh()
        return {"unsubscribed": unsubscribe().receive(event)}
    return {"produced": bootstrap().produce_missing(lambda: context.get_remaining_time_in_millis() / 1000)}
