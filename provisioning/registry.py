"""The schema registry's subjects."""

from collections.abc import Iterable
from typing import Any

import httpx

from masscomm.kafka.topics import Topic
from provisioning import SCHEMAS, TIMEOUT_S, ProvisioningError

# A registry that is told the same by several at once refuses all but one of them with what it says of a schema that is
# not compatible, too: asked again, it answers which of the two it meant.
_CONFLICTS = 5


def register_schemas(registry_url: str, topics: Iterable[Topic]) -> dict[str, int]:
    """Register each topic's schema under `<topic>-value`, compatibility BACKWARD. Answers the ids by subject.

    Several may do so at once, and are told the same ids. Raises ProvisioningError, also when the registry refuses a
    schema because it is not compatible with the one before.
    """
    ids: dict[str, int] = {}
    with httpx.Client(base_url=registry_url, timeout=TIMEOUT_S) as client:
        for topic in topics:
            if topic.schema is None:
                continue
            schema = {"schema": (SCHEMAS / f"{topic.schema}.avsc").read_text(), "schemaType": "AVRO"}
            ids[topic.subject] = _request(client, "POST", f"/subjects/{topic.subject}/versions", schema)["id"]
            # The registry's default is NONE: a breaking change would pass.
            _request(client, "PUT", f"/config/{topic.subject}", {"compatibility": "BACKWARD"})
    return ids


def _request(client: httpx.Client, method: str, path: str, body: dict[str, str]) -> Any:
    for _ in range(_CONFLICTS):
        answer = client.request(method, path, json=body)
        if answer.status_code != httpx.codes.CONFLICT:
            break
    if answer.is_error:
        raise ProvisioningError(f"{method} {path}: {answer.status_code} {answer.text}")
    return answer.json()
