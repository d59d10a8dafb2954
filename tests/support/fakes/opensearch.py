"""The subset of OpenSearch that cdc_consumer uses, in dictionaries: versioned documents, a state document, aliases.

tests/component/cdc/test_convergence.py runs the same histories on the real server, which shows that the fake's
versioning is right.
"""

import json
from typing import Any

from masscomm.directory.client import ConflictError, NotFoundError, TransportError


class FakeOpenSearch:
    """A cluster in memory.

    Attributes:
        refuse: status and reason of the response to writes, by (index, id).
        bulk_requests: number of bulk requests so far.
    """

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        self.aliases: dict[str, set[str]] = {}
        self.alias_calls: list[list[dict[str, Any]]] = []
        self.refuse: dict[tuple[str, str], tuple[int, str]] = {}
        self.bulk_requests = 0
        self.refreshed: list[str] = []
        self.indices = _Indices(self)

    def bulk(self, *, body: bytes) -> dict[str, Any]:
        self.bulk_requests += 1
        lines = [json.loads(line) for line in body.decode().splitlines()]
        # OpenSearch rejects a whole bulk request for one invalid id or version
        # (tests/component/directory/test_opensearch_refusals.py).
        for action in lines[::2]:
            if not 0 < len(action["index"]["_id"].encode()) <= 512 or not 0 <= action["index"]["version"] < 2**63:
                kind = "action_request_validation_exception"
                raise TransportError(400, kind, {"error": {"type": kind}})
        items = []
        for action, source in zip(lines[::2], lines[1::2], strict=True):
            index = action["index"]
            document_id = index["_index"], index["_id"]
            assert index["version_type"] == "external_gte"
            status = self._write(document_id, index["version"], source)
            items.append({"index": {"_id": document_id[1], "status": status, **self._error(document_id, status)}})
        return {"errors": False, "items": items}

    def _write(self, document_id: tuple[str, str], version: int, source: dict[str, Any]) -> int:
        if document_id in self.refuse:
            return self.refuse[document_id][0]
        if document_id in self.documents and self.documents[document_id][0] > version:
            return 409
        self.documents[document_id] = version, source
        return 200

    def _error(self, document_id: tuple[str, str], status: int) -> dict[str, Any]:
        return {"error": {"type": self.refuse.get(document_id, (0, "version_conflict"))[1]}} if status >= 400 else {}

    def get(self, *, index: str, id: str) -> dict[str, Any]:
        if (index, id) not in self.documents:
            raise NotFoundError(404, "{}", {"found": False})
        version, source = self.documents[index, id]
        return {"_source": source, "_seq_no": version, "_primary_term": 1}

    def index(self, *, index: str, id: str, body: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        known = self.documents.get((index, id))
        if (known is None) != (params.get("op_type") == "create") or (known and params["if_seq_no"] != known[0]):
            raise ConflictError(409, "version_conflict", {})
        number = 0 if known is None else known[0] + 1
        self.documents[index, id] = number, body
        return {"_seq_no": number, "_primary_term": 1}

    def mget(self, *, body: dict[str, Any], index: str = "") -> dict[str, Any]:
        if index:
            return {"docs": [self._document(index, each) for each in body["ids"]]}
        return {"docs": [self._document(each["_index"], each["_id"]) for each in body["docs"]]}

    def _document(self, name: str, document_id: str) -> dict[str, Any]:
        (index,) = self.aliases.get(name) or {name}
        known = self.documents.get((index, document_id))
        place = {"_index": index, "_id": document_id, "found": known is not None}
        return place if known is None else {**place, "_version": known[0], "_source": known[1]}

    def rows(self, index: str) -> dict[str, dict[str, Any]]:
        """Documents by id, without deleted ones."""
        return {
            name: source
            for (where, name), (_, source) in self.documents.items()
            if where == index and not source.get("deleted")
        }


class _Indices:
    def __init__(self, cluster: FakeOpenSearch) -> None:
        self._cluster = cluster

    def refresh(self, *, index: str) -> dict[str, Any]:
        self._cluster.refreshed.append(index)
        return {"_shards": {"failed": 0}}

    def get_alias(self, *, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for alias in name.split(","):
            for index in self._cluster.aliases.get(alias, ()):
                found.setdefault(index, {"aliases": {}})["aliases"][alias] = {}
        if not all(self._cluster.aliases.get(alias) for alias in name.split(",")):
            raise NotFoundError(404, "alias missing", {"error": "alias missing", "status": 404, **found})
        return found

    def update_aliases(self, *, body: dict[str, Any]) -> None:
        self._cluster.alias_calls.append(body["actions"])
        for action in body["actions"]:
            ((verb, what),) = action.items()
            holders = self._cluster.aliases.setdefault(what["alias"], set())
            (holders.add if verb == "add" else holders.discard)(what["index"])
