"""Creates the OpenSearch indices, and the OpenSearch roles of the functions. IAM cannot limit the indices of a _bulk
or _mget request; these roles do.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from urllib3.util import SKIP_HEADER

from masscomm.aws.authentication import OpenSearchSigner
from masscomm.cdc.captured_tables import captured_tables
from masscomm.domain.source_tables import OPTIONAL_TABLES, directory_table, is_mapped
from ops.provisioning import SCHEMAS, TIMEOUT_S, ProvisioningError

# _bulk and _mget need a cluster permission in addition to index permissions; changing an alias needs an index
# permission.
_CLUSTER = ["cluster_composite_ops"]
# urllib3, which opensearch-py uses, adds these headers after a request has been signed.
_NOTHING_UNSIGNED = dict.fromkeys(("user-agent", "accept-encoding"), SKIP_HEADER)
# The statistics of an index have the number of its last write.
# https://docs.opensearch.org/latest/security/access-control/permissions/
_READ = ["read", "indices:admin/refresh*", "indices:admin/aliases/get", "indices:monitor/stats"]
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
    definitions = index_definitions(generation)
    for name, definition in definitions.items():
        with _opensearch(opensearch_url, auth, f"index {name}") as client:
            answer = client.indices.create(index=name, body=definition, ignore=400)
            if "resource_already_exists_exception" in str(answer):
                client.indices.put_mapping(index=name, body=definition["mappings"])
            elif "acknowledged" not in answer:
                raise ProvisioningError(f"index {name}: {answer}")
    return list(definitions)


def outdated_indices(opensearch_url: str, generation: str, *, auth: OpenSearchSigner | None = None) -> list[str]:
    """Return a line of text for each index of schemas/indices that is missing or lacks fields.

    Raises:
        ProvisioningError: OpenSearch cannot answer.
    """
    found = []
    for name, definition in index_definitions(generation).items():
        with _opensearch(opensearch_url, auth, f"index {name}") as client:
            known = client.indices.get_mapping(index=name, ignore=404)
            if "error" in known:
                found.append(f"create the index {name}")
            elif missing := sorted(_fields(definition["mappings"]) - _fields(known[name]["mappings"])):
                found.append(f"add to the index {name}: {', '.join(missing)}")
    return found


def index_definitions(generation: str) -> dict[str, Any]:
    """Return the definitions of schemas/indices by the names of their indices."""
    files = {path.stem for path in (SCHEMAS / "indices").glob("*.json")}
    # guard: directory.unmapped_tables
    stems = files - {name for name in OPTIONAL_TABLES if not is_mapped(name)} | set(captured_tables())
    return {
        index_name(stem, generation): json.loads((SCHEMAS / "indices" / f"{directory_table(stem)}.json").read_text())
        for stem in sorted(stems)
    }


def _fields(mapping: Any, path: str = "") -> set[str]:
    """Return the paths of a mapping's fields, those of objects included."""
    found = set()
    for name, field in mapping.get("properties", {}).items():
        found |= {f"{path}{name}", *_fields(field, f"{path}{name}.")}
    return found


def create_roles(opensearch_url: str, users: Iterable[DirectoryUser], *, auth: OpenSearchSigner | None = None) -> None:
    """Create a role in the OpenSearch domain for each user, with the user as its only member.

    Raises:
        ProvisioningError: OpenSearch refused a role.
    """
    for user in users:
        with _opensearch(opensearch_url, auth, f"role {user.name}") as client:
            client.security.create_role(role=user.name, body=_role(user))
            client.security.create_role_mapping(role=user.name, body=_only(user))


def outdated_roles(
    opensearch_url: str, users: Iterable[DirectoryUser], *, auth: OpenSearchSigner | None = None
) -> list[str]:
    """Return a line of text for each user whose role in the OpenSearch domain is missing or differs.

    Raises:
        ProvisioningError: OpenSearch cannot answer.
    """
    found = []
    for user in users:
        with _opensearch(opensearch_url, auth, f"role {user.name}") as client:
            role = client.security.get_role(role=user.name, ignore=404).get(user.name, {})
            mapping = client.security.get_role_mapping(role=user.name, ignore=404).get(user.name, {})
        if not (_has(role, _role(user)) and _has(mapping, _only(user))):
            found.append(f"create the role {user.name}")
    return found


def _has(known: Any, wanted: Any) -> bool:
    """Return whether JSON that OpenSearch returned has all members of `wanted`; it adds members with defaults."""
    if isinstance(wanted, dict):
        return isinstance(known, dict) and all(_has(known.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(known, list) and len(known) == len(wanted) and all(map(_has, known, wanted))
    return bool(known == wanted)


def _role(user: DirectoryUser) -> dict[str, Any]:
    permissions = [
        {
            "index_patterns": [pattern for index in indices for pattern in _patterns(index)],
            "allowed_actions": to,
        }
        for indices, to in ((user.reads, _READ), (user.writes, _WRITE))
        if indices
    ]
    return {"cluster_permissions": _CLUSTER, "index_permissions": permissions}


@contextmanager
def _opensearch(url: str, auth: OpenSearchSigner | None, step: str) -> Iterator[Any]:
    """Yield a client for one step, and convert its errors to ProvisioningError."""
    # Each command of the devstack would import it: 0.2 s of the processor.
    from opensearchpy import OpenSearch, OpenSearchException

    def signed(method: str, url: str, body: bytes | None) -> dict[str, str]:
        return {} if auth is None else auth(method, url, {"content-type": "application/json"}, body) | _NOTHING_UNSIGNED

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
