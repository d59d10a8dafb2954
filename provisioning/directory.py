"""Creates the OpenSearch indices, and the OpenSearch roles of the functions. IAM cannot limit the indices of a _bulk
or _mget request; these roles do.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from masscomm.aws.authentication import OpenSearchSigner
from masscomm.aws.pooled_http_urllib3 import NOTHING_UNSIGNED
from masscomm.cdc.captured_tables import captured_tables
from masscomm.domain.source_tables import directory_table
from provisioning import SCHEMAS, TIMEOUT_S, ProvisioningError

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


def index_name(file_stem: str, generation: str) -> str:
    """Return the index name for a definition. Only the indices of captured tables have a snapshot generation in
    their name.
    """
    return f"{file_stem}-{generation}" if file_stem in captured_tables() else file_stem


def create_indices(opensearch_url: str, generation: str, *, auth: OpenSearchSigner | None = None) -> list[str]:
    """Create the indices of schemas/indices, or add new fields to the mappings of existing ones.

    It creates no aliases: cdc_consumer moves the alias of a captured table once the snapshot generation is complete.

    Returns:
        The names of the indices.

    Raises:
        ProvisioningError: OpenSearch refused an index or a mapping.
    """
    names = []
    stems = {path.stem for path in (SCHEMAS / "indices").glob("*.json")} | set(captured_tables())
    for stem in sorted(stems):
        name = index_name(stem, generation)
        names.append(name)
        definition = json.loads((SCHEMAS / "indices" / f"{directory_table(stem)}.json").read_text())
        with _opensearch(opensearch_url, auth, f"index {name}") as client:
            answer = client.indices.create(index=name, body=definition, ignore=400)
            if "resource_already_exists_exception" in str(answer):
                client.indices.put_mapping(index=name, body=definition["mappings"])
            elif "acknowledged" not in answer:
                raise ProvisioningError(f"index {name}: {answer}")
    return names


def create_roles(opensearch_url: str, users: Iterable[DirectoryUser], *, auth: OpenSearchSigner | None = None) -> None:
    """Create a role in the OpenSearch domain for each user, with the user as its only member.

    Raises:
        ProvisioningError: OpenSearch refused a role.
    """
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
        with _opensearch(opensearch_url, auth, f"role {user.name}") as client:
            client.security.create_role(role=user.name, body=role)
            client.security.create_role_mapping(role=user.name, body=_only(user))


@contextmanager
def _opensearch(url: str, auth: OpenSearchSigner | None, step: str) -> Iterator[Any]:
    """Yield a client for one step, and convert its errors to ProvisioningError."""
    # Each command of the devstack would import it: 0.2 s of the processor.
    from opensearchpy import OpenSearch, OpenSearchException

    def signed(method: str, url: str, body: bytes | None) -> dict[str, str]:
        return {} if auth is None else auth(method, url, {"content-type": "application/json"}, body) | NOTHING_UNSIGNED

    try:
        with OpenSearch(hosts=[url], http_auth=signed, timeout=TIMEOUT_S, max_retries=0) as client:
            # This header would not be signed, and HTTP/1.1 does not need it.
            del client.transport.get_connection().headers["connection"]
            yield client
    except OpenSearchException as error:
        raise ProvisioningError(f"{step}: {error}") from error


def _patterns(index: str) -> list[str]:
    """Return the index patterns of a permission: for a captured table, its alias and the indices of all snapshot
    generations.
    """
    return [index, f"{index}-*"] if index in captured_tables() else [index]


def _only(user: DirectoryUser) -> dict[str, list[str]]:
    return {"backend_roles": [user.role_arn], "users": [], "hosts": []}
