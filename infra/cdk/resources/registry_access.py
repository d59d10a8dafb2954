"""The schema registry as functions, jobs and tasks reach it: the environment's own, or that of the organisation."""

from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cdk.config import ExistingRegistry
from infra.cdk.resources.task import read_secrets
from masscomm.kafka.registry_sign_in import SECRET_SETTING


@dataclass(frozen=True, kw_only=True)
class RegistryAccess:
    """The address of a registry, and the credentials that it needs."""

    # The base URL of the Confluent-compatible API.
    url: str
    # The organisation's registry; None: the environment's own, whose network admits clients without credentials.
    existing: ExistingRegistry | None = None

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables of a client."""
        variables = {"SCHEMA_REGISTRY_URL": self.url}
        if self.existing is not None:
            variables[SECRET_SETTING] = self.existing.secret_arn
        return variables

    def statements(self, scope: Construct) -> list[iam.PolicyStatement]:
        """Return the permissions of a client."""
        if self.existing is None:
            return []
        return read_secrets(scope, self.existing.secret_arn, key=self.existing.secret_key_arn)
