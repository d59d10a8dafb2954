"""OpenSearch for the functions: creates the client, converts its errors to Retry or Stop, and writes documents in
bulk with one result per document.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from masscomm import environment, fast_json
from masscomm.aws.authentication import OpenSearchSigner, opensearch_auth
from masscomm.directory.client import (
    AuthenticationException,
    AuthorizationException,
    ConnectionError,
    NotFoundError,
    OpenSearch,
    SerializationError,
    TransportError,
)
from masscomm.domain.time_limits import OPENSEARCH_REQUEST_S
from masscomm.errors import DeadLetter, Retry, Stop, Unlisted

# The size limit of a bulk request. It is far below http.max_content_length (100 MB) and below the memory of a small
# node.
_BULK_BYTES = 5_000_000
_CONFLICT = 409
_BAD_REQUEST = 400
_TOO_LARGE = 413
_TOO_MANY = 429
# The statuses of a document that concern its index or the moment: no such index, no writes, too busy, no shard.
_NOT_OF_THE_DOCUMENT = (403, 404, _TOO_MANY, 503)
# The error of a closed index, for example while it is restored from a snapshot. It has the status 400, and passes.
_CLOSED = "index_closed_exception"


def connect(url: str, *, timeout_s: float = OPENSEARCH_REQUEST_S, auth: OpenSearchSigner | None = None) -> OpenSearch:
    """Return a client that connects at its first request and does not retry, because Lambda redelivers the records.

    Args:
        url: The address of OpenSearch.
        timeout_s: The time limit of one request in seconds, below the invocation's own limit.
        auth: A function that signs each request.
    """
    return OpenSearch(url, timeout_s=timeout_s, auth=auth)


def connect_from_environment() -> OpenSearch:
    """Return the client for OPENSEARCH_URL. Raises Stop if a variable is missing or invalid."""
    return connect(environment.required("OPENSEARCH_URL"), auth=opensearch_auth())


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Convert the OpenSearch client's errors in this context.

    A response with status 400 is a fault in the code: its error is raised unchanged.

    Args:
        what: The subject of the request, for error messages.

    Raises:
        Retry: OpenSearch is down, busy or not ready.
        Stop: OpenSearch denies access.
    """
    try:
        yield
    except (AuthenticationException, AuthorizationException) as error:
        raise Stop(f"OpenSearch refuses {what}: {error}") from error
    except NotFoundError as error:
        raise Retry(f"the directory is not ready: {what}: {error}") from error
    except (ConnectionError, SerializationError) as error:
        raise Retry(f"OpenSearch did not answer {what}: {error}") from error
    except TransportError as error:
        status = error.status_code
        ours = isinstance(status, int) and _BAD_REQUEST <= status < 500 and status != _TOO_MANY
        if ours and error.error != _CLOSED:
            raise
        raise Retry(f"OpenSearch answered {what} with {error.status_code}") from error


class Conflict(Retry):
    """The index contains a newer version of a document."""


@dataclass(frozen=True, kw_only=True)
class VersionedDocument:
    index: str
    id: str
    # A later write replaces the document if its version is equal or higher.
    version: int
    source: Mapping[str, Any]

    @property
    def action(self) -> dict[str, Any]:
        """Return the action of a bulk request that writes the document."""
        place = {"_index": self.index, "_id": self.id}
        return {"index": {**place, "version": self.version, "version_type": "external_gte"}}


@dataclass(frozen=True, kw_only=True)
class ChangedDocument:
    index: str
    id: str
    # The sequence number and primary term of the document that was read; None: there was none.
    after: tuple[int, int] | None
    source: Mapping[str, Any]

    @property
    def action(self) -> dict[str, Any]:
        """Return the action of a bulk request that writes the document."""
        place = {"_index": self.index, "_id": self.id}
        if self.after is None:
            return {"create": place}
        return {"index": {**place, "if_seq_no": self.after[0], "if_primary_term": self.after[1]}}


@dataclass(frozen=True, kw_only=True)
class RemovedDocument:
    index: str
    id: str
    # The sequence number and primary term of the document that was read.
    after: tuple[int, int]

    @property
    def action(self) -> dict[str, Any]:
        """Return the action of a bulk request that removes the document."""
        seq_no, primary_term = self.after
        place = {"_index": self.index, "_id": self.id}
        return {"delete": {**place, "if_seq_no": seq_no, "if_primary_term": primary_term}}


def write(client: OpenSearch, documents: Sequence[VersionedDocument]) -> list[Exception | None]:
    """Write documents in bulk, each only if the index contains no newer version of it.

    Writing a document twice has the same effect as once (external_gte accepts an equal version). If a whole request
    fails with another error than Stop, all of its documents have this error as their result.

    Returns:
        One result for each document, in their order. None: the index now contains this version or a newer one. Retry:
        OpenSearch does not accept the document now. Unlisted: it refuses this document for an unknown reason.
        DeadLetter(unmappable): the index will never accept it.

    Raises:
        Stop: OpenSearch denies access.
    """
    fates = (fate for lines in _requests(documents) for fate in _bulk(client, lines))
    # With a newer version in the index, nothing has to be written.
    return [None if isinstance(fate, Conflict) else fate for fate in fates]


def write_changed(client: OpenSearch, documents: Sequence[ChangedDocument]) -> list[Exception | None]:
    """Write documents in bulk, each only if the stored document is still the one that was read.

    Returns:
        One result for each document, in their order, as those of `write`. Conflict: the stored document is another one.

    Raises:
        Stop: OpenSearch denies access.
    """
    return [fate for lines in _requests(documents) for fate in _bulk(client, lines)]


def remove_unchanged(client: OpenSearch, documents: Sequence[RemovedDocument]) -> list[Exception | None]:
    """Remove documents in bulk, each only if the stored document is still the one that was read.

    Returns:
        One result for each document, in their order, as those of `write_changed`.

    Raises:
        Stop: OpenSearch denies access.
    """
    return _bulk(client, [b"%s\n" % fast_json.encoded(document.action) for document in documents])


def _bulk(client: OpenSearch, lines: list[bytes]) -> list[Exception | None]:
    """Return the result of each document of a request.

    OpenSearch may refuse a whole request for one document (for example an id of more than 512 bytes). The documents are
    then split into two requests, repeatedly, until the refused document is alone in its request.
    """
    try:
        with answering("a bulk request"):
            return _fates(client.bulk(body=b"".join(lines)), len(lines))
    except Retry as error:
        return [error] * len(lines)
    except TransportError as error:
        if not _is_about_documents(error):  # guard: opensearch.refused_document
            raise
        if len(lines) == 1:
            return [DeadLetter("unmappable", f"OpenSearch does not take the document: {error}"[:500])]
        half = len(lines) // 2
        return _bulk(client, lines[:half]) + _bulk(client, lines[half:])


def _is_about_documents(error: TransportError) -> bool:
    """Return whether OpenSearch refused a request because of its documents. If the address is wrong, the response
    has no error type.
    """
    details = error.info.get("error") if isinstance(error.info, dict) else None
    if error.status_code == _TOO_LARGE:
        return True
    return error.status_code == _BAD_REQUEST and isinstance(details, dict)  # guard: opensearch.wrong_address


def _requests(documents: Sequence[VersionedDocument | ChangedDocument]) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    size = 0
    for document in documents:
        line = b"%s\n%s\n" % (fast_json.encoded(document.action), fast_json.encoded(document.source))
        if lines and size + len(line) > _BULK_BYTES:
            yield lines
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield lines


def _fates(answer: Any, expected: int) -> list[Exception | None]:
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list) or len(items) != expected:
        raise Retry("OpenSearch answered a bulk request without an item for each document")
    return [_fate(next(iter(item.values()), {}) if isinstance(item, dict) else {}) for item in items]


def _fate(item: Mapping[str, Any]) -> Exception | None:
    status = item.get("status")
    if status in (200, 201):
        return None
    if status == _CONFLICT:
        return Conflict("the index contains a newer version of the document")
    error = item.get("error")
    text = json.dumps(error, ensure_ascii=False)[:500]
    kind = error.get("type") if isinstance(error, dict) else None
    if status == _BAD_REQUEST and kind != _CLOSED:  # guard: opensearch.closed_index
        return DeadLetter("unmappable", f"OpenSearch does not take the document: {text}")
    # guard: opensearch.unlisted_status
    is_unlisted = isinstance(status, int) and status not in _NOT_OF_THE_DOCUMENT and kind != _CLOSED
    return (Unlisted if is_unlisted else Retry)(f"OpenSearch answered {status} for a document: {text}")
