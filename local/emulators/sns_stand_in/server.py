"""The HTTP server of the SNS stand-in: the Query APIs of SNS and SES and the JSON API of SMS at /, version 2 of the API
of SES under /v2/email, and its control interface under /_control.

It supports only the parts of HTTP/1.1 that the SDKs need (keep-alive, Content-Length), so that a publish costs tens of
microseconds.

Source: Amazon SNS API reference, "Making Query Requests to Amazon SNS", "Publish", "CreatePlatformEndpoint". SES:
emails.py. SMS: text_messages.py.
"""

import asyncio
import binascii
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, cast
from urllib.parse import parse_qsl
from uuid import uuid4
from xml.sax.saxutils import escape

from local.emulators.sns_stand_in import emails, text_messages
from local.emulators.sns_stand_in.endpoints import Endpoints, Refused
from local.emulators.sns_stand_in.payloads import check_publish
from local.emulators.sns_stand_in.script import HOLD, REFUSALS, RESET_AFTER, RESET_BEFORE, SLOW, Refusal, Rule, Script
from local.emulators.sns_stand_in.shapes import Invalid

NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"
CONTROL = "/_control/"
FLUSH_S = 0.2
_NOTIFICATION_ID = re.compile(r'notification_id\\*"\s*:\s*\\*"([^"\\]+)')
_TARGET = re.compile(rb"\r\nx-amz-target:\s*PinpointSMSVoiceV2\.(\w+)", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 500: "Internal Server Error"}

# The actions that deliver a message; the other actions manage endpoints and senders.
_DELIVERING = ("Publish", "SendRawEmail")
_OF_SES = ("SendRawEmail", "VerifyEmailIdentity")

# An accepted message: (seconds since the epoch; ARN of the endpoint, telephone number or address; message id;
# notification id).
type Entry = tuple[float, str, str, str]


@dataclass
class Service:
    """The state of the server: endpoints, senders, rules, accepted messages."""

    endpoints: Endpoints
    senders: emails.Senders = field(default_factory=emails.Senders)
    texts: text_messages.TextMessages = field(default_factory=text_messages.TextMessages)
    log: TextIO | None = None
    script: Script = field(default_factory=Script)
    received: list[Entry] = field(default_factory=list)
    calls: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    held: list[Callable[[], None]] = field(default_factory=list)

    def act(self, parameters: Mapping[str, str]) -> str:
        """Return the result element of a call that delivers no message. Raises Refused."""
        endpoint = parameters.get("EndpointArn", "")
        match parameters.get("Action"):
            case "CreatePlatformApplication":
                arn = self.endpoints.create_application(parameters["Platform"], parameters["Name"])
                return f"<PlatformApplicationArn>{escape(arn)}</PlatformApplicationArn>"
            case "ListPlatformApplications":
                members = "".join(
                    f"<member><PlatformApplicationArn>{escape(arn)}</PlatformApplicationArn></member>"
                    for arn in self.endpoints.applications()
                )
                return f"<PlatformApplications>{members}</PlatformApplications>"
            case "CreatePlatformEndpoint":
                attributes = _attributes(parameters)
                arn = self.endpoints.create(parameters["PlatformApplicationArn"], parameters["Token"], attributes)
                return f"<EndpointArn>{escape(arn)}</EndpointArn>"
            case "GetEndpointAttributes":
                entries = "".join(
                    f"<entry><key>{name}</key><value>{escape(value)}</value></entry>"
                    for name, value in self.endpoints.attributes(endpoint).items()
                )
                return f"<Attributes>{entries}</Attributes>"
            case "SetEndpointAttributes":
                self.endpoints.attributes(endpoint).update(_attributes(parameters))
                return ""
            case "VerifyEmailIdentity":
                self.senders.verify(parameters.get("EmailAddress", ""))
                return ""
            case "DeleteEndpoint":
                self.endpoints.delete(endpoint)
                return ""
        raise Refused(Refusal(400, "InvalidAction", f"The action {parameters.get('Action')} is not valid"))

    def deliver(self, parameters: Mapping[str, str], rule: Rule | None) -> str:
        """Accept a message; return the result element. Raises Refused, or ConnectionAbortedError if no response may
        be sent.
        """
        by_email = parameters["Action"] == "SendRawEmail"
        try:
            if rule is not None and rule.code in REFUSALS:
                refusal = REFUSALS[rule.code]
                if by_email and refusal.code == emails.THROTTLED.code:
                    refusal = emails.THROTTLED
                raise Refused(refusal)  # noqa: TRY301 - counted with the others
            mail = self.senders.check(parameters) if by_email else None
            target, notification_id = (mail.recipient, mail.notification_id) if mail else self._check(parameters)
        except Refused as refused:
            self.refused[refused.refusal.code] += 1
            raise
        message_id = self._accept(target, notification_id, rule)
        if mail is not None:
            self.senders.accepted.append(mail.shown)
        return f"<MessageId>{message_id}</MessageId>"

    def send_email(self, body: bytes, rule: Rule | None) -> bytes:
        """Accept an e-mail; return the response. Raises Refused, Invalid, or ConnectionAbortedError."""
        try:
            if rule is not None and rule.code in REFUSALS:
                refusal = REFUSALS[rule.code]
                if refusal.code == emails.THROTTLED.code:
                    refusal = emails.THROTTLED
                raise Refused(refusal)  # noqa: TRY301 - counted with the others
            mail = self.senders.checked(body)
        except Refused as refused:
            self.refused[refused.refusal.code] += 1
            raise
        except Invalid:
            self.refused["BadRequestException"] += 1
            raise
        message_id = self._accept(mail.recipient, mail.notification_id, rule)
        self.senders.accepted.append(mail.shown)
        return json.dumps({"MessageId": message_id}).encode()

    def send_text(self, operation: str, body: bytes, rule: Rule | None) -> bytes:
        """Accept an SMS; return the response. Raises Refused, Invalid, or ConnectionAbortedError."""
        try:
            if rule is not None and rule.code in REFUSALS:
                raise Refused(REFUSALS[rule.code])  # noqa: TRY301 - counted with the others
            request = self.texts.check(operation, body)
        except Refused as refused:
            self.refused[refused.refusal.code] += 1
            raise
        except Invalid:
            self.refused["ValidationException"] += 1
            raise
        context = request.get("Context", {})
        number = request["DestinationPhoneNumber"]
        message_id = self._accept(number, context.get("notification_id", ""), rule)
        self.texts.accepted.append({**request, "MessageId": message_id})
        return json.dumps({"MessageId": message_id}).encode()

    def _accept(self, target: str, notification_id: str, rule: Rule | None) -> str:
        """Store an accepted message, and return its id."""
        if rule is not None and rule.code == RESET_BEFORE:
            self.refused[RESET_BEFORE] += 1
            raise ConnectionAbortedError
        message_id = str(uuid4())
        entry = (time.time(), target, message_id, notification_id)
        self.received.append(entry)
        if self.log is not None:
            self.log.write(json.dumps(entry) + "\n")
        return message_id

    def _check(self, parameters: Mapping[str, str]) -> tuple[str, str]:
        """Return the target and the notification id of a publish. Raises Refused."""
        endpoint, message = parameters.get("TargetArn", ""), parameters.get("Message", "")
        if endpoint:
            self.endpoints.check(endpoint)
        elif not parameters.get("PhoneNumber"):
            raise Refused(REFUSALS["InvalidParameter"])
        document = _document(message) if parameters.get("MessageStructure") == "json" else None
        check_publish(endpoint, parameters, document)
        found = _NOTIFICATION_ID.search(message)
        return endpoint or parameters["PhoneNumber"], found[1] if found else ""

    def release(self) -> None:
        """Send the responses of the held calls."""
        held, self.held = self.held, []
        for answer in held:
            answer()

    def counts(self) -> dict[str, object]:
        """Return the numbers of calls in the format of /_control/counts."""
        return {
            "calls": self.calls,
            "accepted": len(self.received),
            "refused": dict(self.refused),
            "held": len(self.held),
        }


def form_fields(body: bytes) -> dict[str, str]:
    """Return the percent-decoded fields of a form.

    The percent signs are replaced by equals signs, which binascii decodes in C: a publish takes 28 µs, and 52 µs with
    parse_qsl. A form with a literal "=" in a value, which no SDK sends, is parsed by parse_qsl.
    """
    fields = {}
    for pair in body.replace(b"+", b" ").split(b"&"):
        name, _, value = pair.partition(b"=")
        if b"=" in value:
            return dict(parse_qsl(body.decode(), keep_blank_values=True))
        fields[_decoded(name)] = _decoded(value)
    return fields


def _decoded(text: bytes) -> str:
    if b"%" not in text:
        return text.decode()
    return binascii.a2b_qp(text.replace(b"%", b"=")).decode(errors="replace")


def _attributes(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return Attributes.entry.1.key=…&Attributes.entry.1.value=… as a mapping."""
    found = {}
    number = 1
    while (name := parameters.get(f"Attributes.entry.{number}.key")) is not None:
        found[name] = parameters.get(f"Attributes.entry.{number}.value", "")
        number += 1
    return found


def _document(message: str) -> dict[str, object]:
    """Return the object in a message whose structure is json. Raises Refused."""
    try:
        document = json.loads(message)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        reason = "Invalid parameter: Message Structure - JSON message body failed to parse"
        raise Refused(Refusal(400, "InvalidParameter", reason))
    if "default" not in document:
        reason = "Invalid parameter: Message Structure - No default entry in JSON message body"
        raise Refused(Refusal(400, "InvalidParameter", reason))
    return document


class Connection(asyncio.Protocol):
    """The connection of one client: one request at a time, with responses in order."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            length = _LENGTH.search(self._buffer, 0, end)
            total = end + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < total:
                return
            line = self._buffer[: self._buffer.index(b"\r\n")].decode("latin-1")
            operation = _TARGET.search(self._buffer, 0, end)
            body, self._buffer = self._buffer[end + 4 : total], self._buffer[total:]
            method, path, _ = line.split(" ", 2)
            if path.startswith(CONTROL):
                self._write(*control(self._service, method, path.removeprefix(CONTROL), body))
            elif path.startswith(emails.PATH):
                self._call_ses(method, path.removeprefix(emails.PATH), body)
            elif operation is not None:
                self._send_text(operation[1].decode(), body)
            else:
                self._call(form_fields(body))

    def _call(self, parameters: Mapping[str, str]) -> None:
        service, action, rule = self._service, parameters.get("Action", ""), None
        try:
            if action in _DELIVERING:
                service.calls += 1
                target = parameters.get("TargetArn") or parameters.get("Destinations.member.1", "")
                rule = service.script.answer(target, time.monotonic())
                result = service.deliver(parameters, rule)
            else:
                result = service.act(parameters)
        except ConnectionAbortedError:
            self._abort()
        except Refused as refused:
            self._write(refused.refusal.status, "text/xml", _error(action, refused.refusal))
        else:
            self._respond(rule, _success(action, result))

    def _call_ses(self, method: str, path: str, body: bytes) -> None:
        service, rule = self._service, None
        try:
            if path == emails.SEND:
                service.calls += 1
                found = re.search(rb'"ToAddresses":\s*\["([^"]*)"', body)
                rule = service.script.answer(found[1].decode() if found else "", time.monotonic())
                answer = service.send_email(body, rule)
            else:
                answer = json.dumps(service.senders.act(method, path, body)).encode()
        except ConnectionAbortedError:
            self._abort()
        except (Refused, Invalid) as error:
            status, name, text = emails.error_of(error)
            self._write(status, "application/json", text, f"x-amzn-ErrorType: {name}\r\n")
        else:
            self._respond(rule, answer, "application/json")

    def _send_text(self, operation: str, body: bytes) -> None:
        service = self._service
        service.calls += 1
        found = re.search(rb'"DestinationPhoneNumber":\s*"([^"]*)"', body)
        rule = service.script.answer(found[1].decode() if found else "", time.monotonic())
        try:
            answer = service.send_text(operation, body, rule)
        except ConnectionAbortedError:
            self._abort()
        except Refused as refused:
            self._error(refused.refusal)
        except Invalid as invalid:
            self._error(invalid)
        else:
            self._respond(rule, answer, "application/x-amz-json-1.0")

    def _error(self, refusal: Refusal | Invalid) -> None:
        status, body = text_messages.error_of(refusal)
        self._write(status, "application/x-amz-json-1.0", body)

    def _respond(self, rule: Rule | None, body: bytes, kind: str = "text/xml") -> None:
        if rule is None:
            self._write(200, kind, body)
        elif rule.code == RESET_AFTER:
            self._abort()
        elif rule.code == HOLD:
            self._service.held.append(lambda: self._write(200, kind, body))
        elif rule.code == SLOW:
            asyncio.get_running_loop().call_later(rule.delay_s, self._write, 200, kind, body)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _write(self, status: int, kind: str, body: bytes, headers: str = "") -> None:
        if self._transport is None or self._transport.is_closing():
            return  # The client has disconnected.
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}\r\n"
            f"{headers}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)


def _namespace(action: str) -> str:
    return emails.NAMESPACE if action in _OF_SES else NAMESPACE


def _success(action: str, result: str) -> bytes:
    # SES responds to every action with a result element; some of them are empty.
    inner = f"<{action}Result>{result}</{action}Result>" if result or action in _OF_SES else ""
    return (
        f'<{action}Response xmlns="{_namespace(action)}">{inner}'
        f"<ResponseMetadata><RequestId>{uuid4()}</RequestId></ResponseMetadata></{action}Response>"
    ).encode()


def _error(action: str, refusal: Refusal) -> bytes:
    kind = "Receiver" if refusal.status >= 500 else "Sender"
    return (
        f'<ErrorResponse xmlns="{_namespace(action)}"><Error><Type>{kind}</Type><Code>{refusal.code}</Code>'
        f"<Message>{escape(refusal.message)}</Message></Error><RequestId>{uuid4()}</RequestId></ErrorResponse>"
    ).encode()


def control(service: Service, method: str, path: str, body: bytes) -> tuple[int, str, bytes]:
    """Handle a request of the control interface (documented in local/devstack/sns_process.py); return status, content
    type, body.
    """
    name, _, query = path.partition("?")
    answer: object = {}
    try:
        match method, name:
            case "GET", "received":
                options = dict(parse_qsl(query))
                since = int(options.get("since", 0))
                answer = service.received[since : since + int(options["most"]) if "most" in options else None]
            case "GET", "emails":
                answer = list(service.senders.accepted)
            case "GET", "texts":
                answer = service.texts.accepted
            case "GET", "events":
                answer = service.texts.events[int(dict(parse_qsl(query)).get("since", 0)) :]
            case "POST", "answers":
                service.texts.answer(**json.loads(body))
            case "POST", "reports":
                service.texts.report(**json.loads(body))
            case "PUT", "identities":
                service.texts.identities = set(json.loads(body))
            case "GET", "counts":
                answer = service.counts()
            case "PUT", "rules":
                service.script.set_rules([Rule.of(rule) for rule in json.loads(body)])
            case "PUT", "limit":
                document = json.loads(body)
                service.script.limit(document["per_s"], document["burst"], time.monotonic())
            case "POST", "release":
                service.release()
            case _:
                return 404, "application/json", b'{"error": "no such control"}'
    except (ValueError, TypeError, KeyError) as error:
        return 400, "application/json", json.dumps({"error": str(error)}).encode()
    return 200, "application/json", json.dumps(answer).encode()


async def serve(
    host: str, port: int, *, log: Path | None, any_endpoint: bool, listening: Callable[[int], None]
) -> None:
    """Serve until the task is cancelled; `listening` is called with the port. Raises OSError."""
    with (log or Path("/dev/null")).open("a") as file:
        service = Service(
            Endpoints(any=any_endpoint),
            emails.Senders(any=any_endpoint),
            text_messages.TextMessages(any=any_endpoint),
            log=file if log is not None else None,
        )
        server = await asyncio.get_running_loop().create_server(lambda: Connection(service), host, port)
        async with server:
            listening(server.sockets[0].getsockname()[1])
            while True:
                await asyncio.sleep(FLUSH_S)
                file.flush()
