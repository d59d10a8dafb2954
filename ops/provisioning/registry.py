"""Registers the Avro schemas in the schema registry."""

from collections.abc import Iterable
from typing import Any

import httpx

from masscomm.kafka.topics import Topic
from ops.provisioning import SCHEMAS, TIMEOUT_S, ProvisioningError

# The user name and the password of basic authentication; None: the registry needs no sign-in.
type SignIn = tuple[str, str] | None

# The number of attempts after a conflict. The registry returns 409 both for an incompatible schema and for a concurrent
# registration of the same schema. A repeated request distinguishes them: only an incompatible schema is refused again.
_CONFLICTS = 5


def register_schemas(registry_url: str, topics: Iterable[Topic], *, auth: SignIn = None) -> dict[str, int]:
    """Register each topic's schema under `<topic>-value` with compatibility BACKWARD.

    Concurrent calls are safe and return the same ids.

    Returns:
        The schema ids by subject.

    Raises:
        ProvisioningError: The registry refused a schema, for example because it is incompatible with its predecessor.
    """
    ids: dict[str, int] = {}
    with httpx.Client(base_url=registry_url, auth=auth, timeout=TIMEOUT_S) as client:
        for topic in topics:
            if topic.schema is None:
                continue
            ids[topic.subject] = _request(client, "POST", f"/subjects/{topic.subject}/versions", _schema(topic))["id"]
            # The registry's default compatibility is NONE, which would accept a breaking change.
            _request(client, "PUT", f"/config/{topic.subject}", {"compatibility": "BACKWARD"})
    return ids


def unregistered(registry_url: str, topics: Iterable[Topic], *, auth: SignIn = None) -> list[str]:
    """Return a line of text for each topic whose schema is not registered.

    Raises:
        ProvisioningError: The registry cannot answer.
    """
    found = []
    with httpx.Client(base_url=registry_url, auth=auth, timeout=TIMEOUT_S) as client:
        for topic in topics:
            if topic.schema is None:
                continue
            answer = _send(client, "POST", f"/subjects/{topic.subject}", _schema(topic))
            if answer.status_code == httpx.codes.NOT_FOUND:
                found.append(f"register {topic.schema} under {topic.subject}")
            elif answer.is_error:
                raise ProvisioningError(f"subject {topic.subject}: {answer.status_code} {answer.text}")
    return found


def _schema(topic: Topic) -> dict[str, str]:
    return {"schema": (SCHEMAS / f"{topic.schema}.avsc").read_text(), "schemaType": "AVRO"}


def _request(client: httpx.Client, method: str, path: str, body: dict[str, str]) -> Any:
    for _ in range(_CONFLICTS):
        answer = _send(client, method, path, body)
        if answer.status_code != httpx.codes.CONFLICT:
            break
    if answer.is_error:
        raise ProvisioningError(f"{method} {path}: {answer.status_code} {answer.text}")
    return answer.json()


def _send(client: httpx.Client, method: str, path: str, body: dict[str, str]) -> httpx.Response:
    try:
        return client.request(method, path, json=body)
    except httpx.TransportError as error:
        raise ProvisioningError(f"The schema registry at {client.base_url} does not answer: {error!r}") from error
