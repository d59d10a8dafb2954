"""OpenSearch indices and the domain's own roles. IAM cannot limit the indices of a _bulk or _mget; the roles do."""

import json
from collections.abc import Generator, Iterable
from dataclasses import dataclass

import httpx

from masscomm.aws.authentication import OpenSearchSigner
from masscomm.kafka.topics import CDC_TABLES
from provisioning import SCHEMAS, TIMEOUT_S, ProvisioningError

_SECURITY = "/_plugins/_security/api"
# _bulk and _mget need a cluster permission in addition to index permissions; changing an alias is an index action.
_CLUSTER = ["cluster_composite_ops"]
_READ = ["read", "indices:admin/refresh*", "indices:admin/aliases/get"]
_WRITE = [*_READ, "write", "indices:admin/aliases"]


@dataclass(frozen=True, kw_only=True)
class DirectoryUser:
    """A client of the domain."""

    # The name of its role in the domain.
    name: str
    # The ARN of its IAM role.
    role_arn: str
    # Indices; a captured table by its alias.
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class SignedRequests(httpx.Auth):
    """Signs requests in the same way as the functions."""

    requires_request_body = True

    def __init__(self, signer: OpenSearchSigner) -> None:
        self._signer = signer

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Sign the request; httpx calls this method."""
        kind = {name: request.headers[name] for name in ("content-type",) if name in request.headers}
        signed = self._signer(request.method, str(request.url), kind, request.content)
        # httpx adds unsigned headers: keep only those that the connection needs.
        kept = {name: request.headers[name] for name in ("host", "content-length") if name in request.headers}
        request.headers = httpx.Headers({**kept, **signed})
        yield request


def index_name(file_stem: str, generation: str) -> str:
    """The index of a definition. Only the indices of captured tables belong to a snapshot generation."""
    return f"{file_stem}-{generation}" if file_stem in CDC_TABLES else file_stem


def create_indices(opensearch_url: str, generation: str, *, auth: httpx.Auth | None = None) -> list[str]:
    """Create the indices of schemas/indices, or add new fields to the mappings of existing ones.

    It creates no aliases: cdc_consumer moves the alias of a captured table once the generation is complete.

    Returns:
        The names of the indices.

    Raises:
        ProvisioningError: OpenSearch refused an index or a mapping.
    """
    names = []
    with httpx.Client(base_url=opensearch_url, timeout=TIMEOUT_S, auth=auth) as client:
        for path in sorted((SCHEMAS / "indices").glob("*.json")):
            name = index_name(path.stem, generation)
            names.append(name)
            definition = json.loads(path.read_text())
            answer = client.put(f"/{name}", json=definition)
            if answer.is_error and "resource_already_exists_exception" in answer.text:
                answer = client.put(f"/{name}/_mapping", json=definition["mappings"])
            if answer.is_error:
                raise ProvisioningError(f"index {name}: {answer.status_code} {answer.text}")
    return names


def create_roles(opensearch_url: str, users: Iterable[DirectoryUser], *, auth: httpx.Auth | None = None) -> None:
    """Create a role of the domain for each user, with the user as its only member.

    Raises:
        ProvisioningError: OpenSearch refused a role.
    """
    with httpx.Client(base_url=opensearch_url, timeout=TIMEOUT_S, auth=auth) as client:
        for user in users:
            permissions = [
                {
                    "index_patterns": [pattern for index in indices for pattern in _patterns(index)],
                    "allowed_actions": to,
                }
                for indices, to in ((user.reads, _READ), (user.writes, _WRITE))
                if indices
            ]
            role = {"cluster_permissions": _CLUSTER, "index_permissions": permissions}
            for path, body in ((f"roles/{user.name}", role), (f"rolesmapping/{user.name}", _only(user))):
                answer = client.put(f"{_SECURITY}/{path}", json=body)
                if answer.is_error:
                    raise ProvisioningError(f"{path}: {answer.status_code} {answer.text}")


def _patterns(index: str) -> list[str]:
    """The index patterns of a permission: for a captured table its alias and the indices of all generations."""
    return [index, f"{index}-*"] if index in CDC_TABLES else [index]


def _only(user: DirectoryUser) -> dict[str, list[str]]:
    return {"backend_roles": [user.role_arn], "users": [], "hosts": []}
