"""Emulates SES: verified senders, tenants, and sending with SES' own errors.

Version 2 of the API is JSON with paths, and its requests are checked against the service's model in botocore. Of
version 1, with forms and XML, there is SendRawEmail, which version 0.1.0 of masscomm calls.

Source: Amazon SES API reference v2, "SendEmail", "GetEmailIdentity", "CreateTenant", "CreateTenantResourceAssociation",
"GetTenant", "ListTenantResources", "UpdateReputationEntityCustomerManagedStatus"; v1, "SendRawEmail", "Common Errors";
Amazon SES developer guide, "Amazon SES email sending errors" and "Errors related to the sending quotas for your Amazon
SES account". The error of a missing association: the AccessDeniedException that SES returns.
"""

import base64
import binascii
import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parseaddr
from typing import Any
from urllib.parse import unquote

from local.emulators.local import ACCOUNT, REGION
from local.emulators.sns_stand_in.endpoints import Refused
from local.emulators.sns_stand_in.script import Refusal
from local.emulators.sns_stand_in.shapes import Invalid, check_shape

NAMESPACE = "http://ses.amazonaws.com/doc/2010-12-01/"
PATH = "/v2/email/"
SEND = "outbound-emails"
THROTTLED = Refusal(400, "Throttling", "Maximum sending rate exceeded.")
_FROM = re.compile(rb"^from:([^\r\n]*(?:\r\n[ \t][^\r\n]*)*)", re.IGNORECASE | re.MULTILINE)
_MESSAGE_ID = re.compile(rb"^message-id:\s*<([^@>]+)@", re.IGNORECASE | re.MULTILINE)
_MAX_DESTINATIONS = 50
# The accepted e-mails that are kept.
_KEPT = 200_000
# The size limit of a message in bytes, after its attachments are encoded.
_MAX_BYTES = 10 * 1024 * 1024
# Errors of the rules (script.py) and of version 1 → those of version 2.
_OF_V2 = {
    "Throttling": (429, "TooManyRequestsException"),
    "InvalidParameterValue": (400, "BadRequestException"),
    "InternalError": (500, "InternalFailure"),
}


def identity_arn(name: str) -> str:
    """Return the ARN of an identity: an address or a domain."""
    return f"arn:aws:ses:{REGION}:{ACCOUNT}:identity/{name}"


def configuration_set_arn(name: str) -> str:
    return f"arn:aws:ses:{REGION}:{ACCOUNT}:configuration-set/{name}"


@dataclass
class Tenant:
    """A tenant of SES."""

    name: str
    resources: set[str] = field(default_factory=set)
    status: str = "ENABLED"

    @property
    def arn(self) -> str:
        return f"arn:aws:ses:{REGION}:{ACCOUNT}:tenant/{self.name}/tn-{self.name}"


@dataclass(frozen=True)
class Accepted:
    """An e-mail that can be sent."""

    recipient: str
    # The id of the notification; empty if the message has none.
    notification_id: str
    # What the stand-in shows of it.
    shown: Mapping[str, Any]


@dataclass
class Senders:
    """The verified sender addresses, and the tenants."""

    any: bool = False  # Whether every sender is accepted, and every resource is associated with every tenant.
    accepted: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _verified: set[str] = field(default_factory=set)
    _tenants: dict[str, Tenant] = field(default_factory=dict)

    def verify(self, address: str) -> None:
        """Verify a sender at once; real SES waits until the owner of the address confirms."""
        self._verified.add(address.lower())

    # --- version 2 ----------------------------------------------------------------------------------------------------

    def checked(self, body: bytes) -> Accepted:
        """Return the e-mail in a request of SendEmail. Raises Refused, or Invalid."""
        request = _request(body, "SendEmailRequest")
        message = base64.b64decode(request["Content"].get("Raw", {}).get("Data", ""))
        written = _FROM.search(message)
        sender = parseaddr(request.get("FromEmailAddress") or (written[1].decode("latin-1") if written else ""))[1]
        [*recipients] = request.get("Destination", {}).get("ToAddresses", [])
        self._check(message, sender, recipients)
        configuration_set, tenant = request.get("ConfigurationSetName"), request.get("TenantName")
        if tenant is not None:
            self._check_tenant(tenant, sender, configuration_set)
        shown = {
            "RawData": message.decode("latin-1"),
            "ConfigurationSetName": configuration_set,
            "TenantName": tenant,
        }
        return Accepted(recipients[0], _notification_id(message), shown)

    def act(self, method: str, path: str, body: bytes) -> Mapping[str, Any]:
        """Return the answer to a request that sends nothing. Raises Refused, or Invalid."""
        match method, path.split("/"):
            case "POST", ["identities"]:
                self.verify(_request(body, "CreateEmailIdentityRequest")["EmailIdentity"])
                return {"VerifiedForSendingStatus": True}
            case "GET", ["identities", name]:
                is_known = self.any or unquote(name).lower() in self._verified
                if not is_known:
                    raise _not_found(f"Email identity {unquote(name)} does not exist.")
                return {"IdentityType": "DOMAIN", "VerifiedForSendingStatus": True, "VerificationStatus": "SUCCESS"}
            case "POST", ["tenants"]:
                tenant = Tenant(_request(body, "CreateTenantRequest")["TenantName"])
                self._tenants[tenant.name] = tenant
                return {"TenantName": tenant.name, "TenantArn": tenant.arn, "SendingStatus": tenant.status}
            case "POST", ["tenants", "resources"]:
                request = _request(body, "CreateTenantResourceAssociationRequest")
                self._tenant(request["TenantName"]).resources.add(request["ResourceArn"])
                return {}
            case "POST", ["tenants", "get"]:
                tenant = self._tenant(_request(body, "GetTenantRequest")["TenantName"])
                return {"Tenant": {"TenantName": tenant.name, "TenantArn": tenant.arn, "SendingStatus": tenant.status}}
            case "POST", ["tenants", "resources", "list"]:
                tenant = self._tenant(_request(body, "ListTenantResourcesRequest")["TenantName"])
                return {"TenantResources": [{"ResourceArn": arn} for arn in sorted(tenant.resources)]}
            case "PUT", ["reputation", "entities", "RESOURCE", arn, "customer-managed-status"]:
                for tenant in self._tenants.values():
                    if tenant.arn == unquote(arn):
                        tenant.status = json.loads(body)["SendingStatus"]
                return {}
        raise Refused(Refusal(404, "UnknownOperationException", ""))

    def _tenant(self, name: str) -> Tenant:
        if name not in self._tenants:
            raise _not_found(f"Tenant {name} not found.")
        return self._tenants[name]

    def _check_tenant(self, name: str, sender: str, configuration_set: str | None) -> None:
        if self.any and name not in self._tenants:
            return
        tenant = self._tenant(name)
        if tenant.status == "DISABLED":
            raise Refused(Refusal(400, "SendingPausedException", f"Sending is paused for tenant {name}."))
        needed = [] if configuration_set is None else [configuration_set_arn(configuration_set)]
        identities = {identity_arn(sender), identity_arn(sender.rpartition("@")[2])}
        if not identities & tenant.resources:
            needed.insert(0, identity_arn(sender))
        if missing := [arn for arn in needed if arn not in tenant.resources]:
            text = f"Tenant not associated with resources [{', '.join(missing)}]."
            raise Refused(Refusal(403, "AccessDeniedException", text))

    # --- version 1 ----------------------------------------------------------------------------------------------------

    def check(self, parameters: Mapping[str, str]) -> Accepted:
        """Return the e-mail in a request of SendRawEmail. Raises Refused."""
        try:
            message = base64.b64decode(parameters.get("RawMessage.Data", ""), validate=True)
        except binascii.Error as error:
            raise Refused(Refusal(400, "SerializationException", "RawMessage.Data is not Base64")) from error
        names = [f"Destinations.member.{number}" for number in range(1, _MAX_DESTINATIONS + 2)]
        recipients = [parameters[name] for name in names if name in parameters]
        self._check(message, parseaddr(parameters.get("Source", ""))[1], recipients)
        return Accepted(recipients[0], _notification_id(message), {"RawData": message.decode("latin-1")})

    # --- both ---------------------------------------------------------------------------------------------------------

    def _check(self, message: bytes, sender: str, recipients: list[str]) -> None:
        if not message:
            raise Refused(Refusal(400, "InvalidParameterValue", "Empty raw message."))
        if len(message) > _MAX_BYTES:
            text = f"Message length is more than {_MAX_BYTES} bytes long: '{len(message)}'."
            raise Refused(Refusal(400, "InvalidParameterValue", text))
        if len(recipients) > _MAX_DESTINATIONS:
            text = f"Recipient count exceeds {_MAX_DESTINATIONS}."
            raise Refused(Refusal(400, "MessageRejected", text))
        for recipient in recipients or [""]:
            _, at, domain = recipient.rpartition("@")
            if not at or not domain:
                raise Refused(Refusal(400, "InvalidParameterValue", "Missing final '@domain'"))
            if not domain.isascii():
                raise Refused(Refusal(400, "InvalidParameterValue", "Domain contains illegal character"))
        if not self.any and not {sender.lower(), sender.lower().rpartition("@")[2]} & self._verified:
            text = f"Email address is not verified. The following identities failed the check: {sender}"
            raise Refused(Refusal(400, "MessageRejected", text))


def error_of(error: Refused | Invalid) -> tuple[int, str, bytes]:
    """Return the HTTP status of an error of version 2, its name, and its body."""
    if isinstance(error, Invalid):
        return 400, "BadRequestException", json.dumps({"message": str(error)}).encode()
    refusal = error.refusal
    status, name = _OF_V2.get(refusal.code, (refusal.status, refusal.code))
    return status, name, json.dumps({"message": refusal.message}).encode()


def _request(body: bytes, shape: str) -> Any:
    try:
        request = json.loads(body)
    except ValueError as error:
        raise Refused(Refusal(400, "SerializationException", "")) from error
    check_shape("sesv2", shape, request)
    return request


def _not_found(text: str) -> Refused:
    return Refused(Refusal(404, "NotFoundException", text))


def _notification_id(message: bytes) -> str:
    found = _MESSAGE_ID.search(message)
    return found[1].decode("latin-1") if found else ""
