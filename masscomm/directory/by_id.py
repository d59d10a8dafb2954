"""Looks up documents of one index by their ids, which sees every acknowledged write."""

from collections.abc import Iterable, Mapping
from itertools import batched
from typing import Any

from masscomm.directory.bulk_writes import answering
from masscomm.directory.client import OpenSearch
from masscomm.errors import Retry

_IDS_A_REQUEST = 1_000


def documents_by_id(client: OpenSearch, index: str, ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return the documents that exist, by id in the order of the ids, as OpenSearch returns them: with `_source`,
    `_version`, `_seq_no` and `_primary_term`.

    Raises:
        Retry: OpenSearch is down, or has not answered for each id.
        Stop: OpenSearch denies access.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for some in batched(ids, _IDS_A_REQUEST, strict=False):
        with answering(f"a look-up in {index}"):
            # The path of a request for several documents does not depend on the ids, so that a role can permit it.
            answer = client.mget(index=index, body={"ids": list(some)})
        documents = answer.get("docs") if isinstance(answer, dict) else None
        if not isinstance(documents, list) or [each.get("_id") for each in documents] != list(some):
            raise Retry(f"OpenSearch answered a look-up in {index} without a document for each id")
        for document in documents:
            if "error" in document or "found" not in document:
                raise Retry(f"OpenSearch could not look up {document['_id']} in {index}")
            if document["found"]:
                found[document["_id"]] = document
    return found
