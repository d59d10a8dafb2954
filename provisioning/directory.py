"""Creates the OpenSearch indices, and the OpenSearch roles of the functions. IAM cannot limit the indices of a _bulk
or _mget request; these roles do.
"""

import json
from collections.abc import Generator, Iterable
from dataclasses import dataclass

import httpx

from masscomm.aws.authentication import OpenSearchSigner
from masscomm.cdc.captured_tables import captured_tables
from provisioning import SCHEMAS, TIMEOUT_S, ProvisioningError

_SECURITY = "/_plugins/_security/api"
# _bulk and _mget need a cluster permission in addition to index permissions; changing an alias needs an index
# permission.
_CLUSTER = ["cluster_composite_ops"]
_READ = ["read", "indices:admin/refresh*", "indices:admin/aliases/get"]
_WRITE = [*_READ, "write", "indices:admin/aliases"]


@dataclass(frozen=True, kw_only=True)
class DirectoryUser:
    """A client of the OpenSearch domain, and its permissions."""

    # The name of the client's role in the OpenSearch domain.
    name: str
    # The ARN of the client's IAM role.
    role_arn: str
    # The indices that the client reads; a captured table is named by its alias.
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class SignedRequests(httpx.Auth):
    """Signs requests in the same way as the functions do."""

    requires_request_body = True

    def __init__(self, signer: OpenSearchSigner) -> None:
        self._signer = signer

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Sign the request; httpx calls this method."""
        kind = {name: request.headers[name] for name in ("content-type",) if name in request.headers}
        signed = self._signer(request.method, str(request.url), kind, request.content)
        # httpx adds headers that are not signed; only those that the connection needs are kept.
        kept = {name: request.headers[name] for name in ("host", "content-length") if name in request.headers}
        request.headers = httpx.Headers({**kept, **signed})
        yield request


def index_name(file_stem: str, generation: str) -> str:
    """Return the index name for a definition. Only the indices of captured tables have a snapshot generation in
    their name.
    """
    return f"{file_stem}-{generation}" if file_stem in captured_tables() else file_stem


def create_indices(opensearch_url: str, generation: str, *, auth: httpx.Auth | None = None) -> list[str]:
    """Create the indices of schemas/indices, or add new fields to the mappings of existing ones.

    It creates no aliases: cdc_consumer moves the alias of a captured table once the snapshot generation is complete.

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
    """Create a role in the OpenSearch domain for each user, with the user as its only member.

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
    """Return the index patterns of a permission: for a captured table, its alias and the indices of all snapshot
    generations.
    """
    return [index, f"{index}-*"] if index in captured_tables() else [index]


def _only(user: DirectoryUser) -> dict[str, list[str]]:
    return {"backend_roles": [user.role_arn], "users": [], "hosts": []}
