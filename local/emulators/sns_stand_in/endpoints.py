"""Platform applications and their endpoints, in memory, with SNS' own errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, uuid5

from local.emulators.local import ACCOUNT, REGION
from local.emulators.sns_stand_in.script import REFUSALS, Refusal


class Refused(Exception):
    """A call is refused with an error of SNS."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


def application_arn(platform: str, name: str) -> str:
    return f"arn:aws:sns:{REGION}:{ACCOUNT}:app/{platform}/{name}"


def endpoint_arn(application: str, token: str) -> str:
    """Return the ARN of the endpoint that SNS creates for a token in an application."""
    return f"{application.replace(':app/', ':endpoint/', 1)}/{uuid5(NAMESPACE_URL, f'{application}/{token}')}"


@dataclass
class Endpoints:
    """The platform applications and endpoints."""

    any: bool = False  # Whether messages to endpoints that were never created are accepted.
    _applications: set[str] = field(default_factory=set)
    _attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    _deleted: set[str] = field(default_factory=set)

    def create_application(self, platform: str, name: str) -> str:
        """Create a platform application, or find an existing one of this name. Return its ARN."""
        arn = application_arn(platform, name)
        self._applications.add(arn)
        return arn

    def applications(self) -> list[str]:
        return sorted(self._applications)

    def create(self, application: str, token: str, attributes: Mapping[str, str]) -> str:
        """Create or find the endpoint of a token. Raises Refused if it exists with other attributes."""
        if application not in self._applications:
            raise Refused(Refusal(404, "NotFound", "PlatformApplication does not exist"))
        arn = endpoint_arn(application, token)
        wanted = {"Enabled": "true", **attributes, "Token": token}
        there = self._attributes.setdefault(arn, wanted)
        self._deleted.discard(arn)
        if any(there.get(name) != value for name, value in attributes.items()):
            reason = f"Endpoint {arn} already exists with the same Token, but different attributes."
            raise Refused(Refusal(400, "InvalidParameter", f"Invalid parameter: Token Reason: {reason}"))
        return arn

    def attributes(self, arn: str) -> dict[str, str]:
        """Return the attributes Enabled and Token of an endpoint, which the caller may change in place. Raises
        Refused.
        """
        if arn not in self._attributes:
            if not self.any or arn in self._deleted:
                raise Refused(REFUSALS["NotFound"])
            self._attributes[arn] = {"Enabled": "true", "Token": ""}
        return self._attributes[arn]

    def delete(self, arn: str) -> None:
        self._attributes.pop(arn, None)
        self._deleted.add(arn)

    def check(self, arn: str) -> None:
        """Check that the endpoint accepts messages. Raises Refused."""
        there = self._attributes.get(arn)
        if there is None:
            if not self.any or arn in self._deleted:
                raise Refused(REFUSALS["NotFound"])
        elif there["Enabled"] != "true":
            raise Refused(REFUSALS["EndpointDisabled"])
