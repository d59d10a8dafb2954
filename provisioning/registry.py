"""The schema registry's subjects."""

from collections.abc import Iterable

import httpx

from masscomm.topics import Topic
from provisioning import SCHEMAS, TIMEOUT_S, ProvisioningError


def register_schemas(registry_url: str, topics: Iterable[Topic]) -> dict[str, int]:
    """Register each topic's schema under `<topic>-value`, compatibility BACKWARD. Answers the ids by subject.

    Raises ProvisioningError, also when the registry refuses a schema because it is not compatible with the one before.
    """
    ids: dict[str, int] = {}
    with httpx.Client(base_url=registry_url, timeout=TIMEOUT_S) as client:
        for topic in topics:
            if topic.schema is None:
                continue
            schema = (SCHEMAS / f"{topic.schema}.avsc").read_text()
            answer = client.post(f"/subjects/{topic.subject}/versions", json={"schema": schema, "schemaType": "AVRO"})
            if answer.is_error:
                raise ProvisioningError(f"schema of {topic.subject}: {answer.status_code} {answer.text}")
            ids[topic.subject] = answer.json()["id"]
            # The registry's default is NONE: a breaking change would pass.
            answer = client.put(f"/config/{topic.subject}", json={"compatibility": "BACKWARD"})
            if answer.is_error:
                raise ProvisioningError(f"compatibility of {topic.subject}: {answer.status_code} {answer.text}")
    return ids
