"""The field `authentication` of webhook endpoints: what a request sets, and what responses show of it."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from masscomm.channels.public_urls import UrlRefused, checked
from masscomm.domain.webhook_authentication import (
    MAX_HEADERS,
    MAX_NAME,
    MAX_PEM,
    MAX_SECRET,
    Authentication,
    AuthenticationType,
)
from masscomm.http.body import undefined_fields
from masscomm.http.parameters import time_of_ms
from masscomm.http.problem import FieldError
from masscomm.texts import CodedText, Text

FIELD = "authentication"
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
# A value of a header has neither a blank at its ends nor a control character (RFC 9110, section 5.5).
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?", re.ASCII)
_HEADER_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,98}[a-z0-9])?", re.ASCII)
# The headers that masscomm sets, and those that concern a connection.
_RESERVED = {
    *("accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host"),
    *("keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
}
_RESERVED_PREFIXES = ("webhook-", "proxy-")


class AuthenticationFields(TypedDict):
    """How masscomm authenticates its requests, in addition to their signature."""

    type: AuthenticationType
    token: NotRequired[str]
    """bearer: the token."""
    username: NotRequired[str]
    password: NotRequired[str]
    """basic: user name and password."""
    headers: NotRequired[dict[str, str]]
    """headers: up to 10 headers, such as x-api-key."""
    token_url: NotRequired[str]
    """oauth2: the address from which access tokens are requested with client credentials."""
    client_id: NotRequired[str]
    client_secret: NotRequired[str]
    scope: NotRequired[str]
    audience: NotRequired[str]
    client_authentication: NotRequired[Literal["basic", "body"]]
    """oauth2: whether id and secret are in the header Authorization (the default) or in the body."""
    certificate: NotRequired[str]
    """mtls: the client certificate in PEM, followed by those of its authorities."""
    private_key: NotRequired[str]
    """mtls: its private key in PEM, without a password."""


class AuthenticationBody(TypedDict):
    """The authentication of an endpoint, without its secrets."""

    type: AuthenticationType
    since: str
    """The time at which it was set."""
    previous_until: str | None
    """The time until which the previous one is used for requests that are refused."""
    username: NotRequired[str]
    headers: NotRequired[list[str]]
    """The names of the headers."""
    token_url: NotRequired[str]
    client_id: NotRequired[str]
    scope: NotRequired[str]
    audience: NotRequired[str]
    client_authentication: NotRequired[Literal["basic", "body"]]
    certificate: NotRequired[str]
    """The subject of the client certificate."""
    certificate_until: NotRequired[str]
    """The end of its validity."""


class Given(NamedTuple):
    """The authentication in a request that is valid."""

    type: AuthenticationType
    # The secrets, which are sealed, and the other fields, which are shown.
    secrets: Mapping[str, Any]
    shown: Mapping[str, Any]


def shown(authentication: Authentication | None, previous_until_ms: int | None) -> AuthenticationBody | None:
    """Return what responses show of an authentication."""
    if authentication is None:
        return None
    body: Any = {
        "type": authentication.type,
        "since": time_of_ms(authentication.since_ms),
        "previous_until": None if previous_until_ms is None else time_of_ms(previous_until_ms),
    }
    body |= authentication.shown
    shown_body: AuthenticationBody = body
    return shown_body


def read(value: Any, *, now_ms: int, loopback: bool) -> Given | list[FieldError]:
    """Return the authentication that a request sets, or an error for each field that cannot be used.

    Args:
        value: The value of the field, which is not null.
        now_ms: The time of the request.
        loopback: Whether servers on this machine are permitted.
    """
    if not isinstance(value, dict):
        return [FieldError(FIELD, Text.MUST_BE_OBJECT.filled())]
    if value.get("type") not in list(AuthenticationType):
        choices = Text.FORM_CHOICE.filled(choices=", ".join(AuthenticationType))
        return [FieldError(f"{FIELD}.type", Text.MUST_BE.filled(form=choices))]
    kind = AuthenticationType(value["type"])
    checks = _checks(kind, loopback=loopback)
    errors = undefined_fields(value, AuthenticationFields)
    errors += [
        FieldError(name, Text.FIELD_UNKNOWN.filled())
        for name in value
        if name in AuthenticationFields.__optional_keys__ and name not in checks
    ]
    optional = ("scope", "audience", "client_authentication")
    for name, check in checks.items():
        if name not in value:
            errors += [] if name in optional else [FieldError(name, Text.MISSING.filled())]
        elif (problem := check(value[name])) is not None:
            errors.append(FieldError(name, problem))
    if errors:
        return [FieldError(f"{FIELD}.{each.field}", each.message) for each in errors]
    return _given(kind, value, now_ms)


def _given(kind: AuthenticationType, value: Mapping[str, Any], now_ms: int) -> Given | list[FieldError]:
    secrets = {name: each for name, each in value.items() if name != "type"}
    match kind:
        case AuthenticationType.BASIC:
            return Given(kind, secrets, {"username": value["username"]})
        case AuthenticationType.HEADERS:
            headers = {name.lower(): each for name, each in value["headers"].items()}
            return Given(kind, {"headers": headers}, {"headers": sorted(headers)})
        case AuthenticationType.OAUTH2:
            secrets.setdefault("client_authentication", "basic")
            return Given(kind, secrets, {name: each for name, each in secrets.items() if name != "client_secret"})
        case AuthenticationType.MTLS:
            return _certified(secrets, now_ms)
    return Given(kind, secrets, {})


def _checks(kind: AuthenticationType, *, loopback: bool) -> dict[str, Callable[[Any], CodedText | None]]:
    """Return the fields of a type, each with a function that returns the error of its value."""
    match kind:
        case AuthenticationType.BEARER:
            return {"token": _visible}
        case AuthenticationType.BASIC:
            return {"username": _username, "password": _printable}
        case AuthenticationType.HEADERS:
            return {"headers": _headers}
        case AuthenticationType.OAUTH2:
            texts = dict.fromkeys(("client_id", "client_secret", "scope", "audience"), _printable)
            return {"token_url": lambda each: _url(each, loopback=loopback), **texts, "client_authentication": _place}
    return {"certificate": _pem, "private_key": _pem}


def _visible(value: Any) -> CodedText | None:
    if isinstance(value, str) and len(value) <= MAX_SECRET and _VISIBLE.fullmatch(value):
        return None
    return Text.MUST_BE_VISIBLE.filled(maximum=MAX_SECRET)


def _printable(value: Any, maximum: int = MAX_SECRET) -> CodedText | None:
    if isinstance(value, str) and 1 <= len(value) <= maximum and value.isprintable():
        return None
    return Text.MUST_BE_PRINTABLE.filled(maximum=maximum)


def _username(value: Any) -> CodedText | None:
    if isinstance(value, str) and ":" in value:
        return Text.USERNAME_WITH_COLON.filled()
    return _printable(value, MAX_NAME)


def _headers(value: Any) -> CodedText | None:
    if isinstance(value, dict) and 1 <= len(value) <= MAX_HEADERS:
        names = {name.lower() for name in value}
        is_reserved = any(name in _RESERVED or name.startswith(_RESERVED_PREFIXES) for name in names)
        # guard: webhook_authentication.reserved_headers
        if len(names) == len(value) and all(map(_HEADER_NAME.fullmatch, names)) and not is_reserved:
            texts = [each for each in value.values() if isinstance(each, str) and _HEADER_VALUE.fullmatch(each)]
            if len(texts) == len(value) and sum(map(len, texts)) <= MAX_SECRET:
                return None
    return Text.HEADERS_FORM.filled(maximum=MAX_HEADERS)


def _url(value: Any, *, loopback: bool) -> CodedText | None:
    try:
        checked(value if isinstance(value, str) else "", loopback=loopback)
    except UrlRefused as refused:
        return refused.text
    return None


def _place(value: Any) -> CodedText | None:
    if value in ("basic", "body"):
        return None
    return Text.MUST_BE_EITHER.filled(first="basic", second="body")


def _pem(value: Any) -> CodedText | None:
    if isinstance(value, str) and len(value) <= MAX_PEM and value.isascii():
        return None
    return Text.MUST_BE_TEXT.filled(maximum=MAX_PEM)


def _certified(secrets: Mapping[str, Any], now_ms: int) -> Given | list[FieldError]:
    """Return a client certificate that is valid and has this private key, or the errors."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    try:
        certificate = x509.load_pem_x509_certificates(secrets["certificate"].encode())[0]
        until_ms = round(certificate.not_valid_after_utc.timestamp() * 1000)
        public_key = certificate.public_key().public_bytes(*form)
        subject = certificate.subject.rfc4514_string()[:MAX_NAME]
    except ValueError:
        until_ms = 0
    if until_ms <= now_ms:
        return [FieldError(f"{FIELD}.certificate", Text.CERTIFICATE_FORM.filled())]
    try:
        # TypeError: the key has a password.
        private_key = load_pem_private_key(secrets["private_key"].encode(), None).public_key().public_bytes(*form)
    except (ValueError, TypeError):
        private_key = b""
    if private_key != public_key:
        return [FieldError(f"{FIELD}.private_key", Text.PRIVATE_KEY_FORM.filled())]
    shown = {"certificate": subject, "certificate_until": time_of_ms(until_ms)}
    return Given(AuthenticationType.MTLS, secrets, shown)
