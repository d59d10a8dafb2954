"""The stores and providers that each function uses, and its cold-start policy. schemas/topics.yaml has its topics.

Each function of functions/functions.yaml has one profile; tests/unit/infra checks this.
"""

from dataclasses import dataclass
from enum import Enum

from masscomm.kafka.topics import BUILD, CDC_TABLES, DELIVERY, RECHECK, SEND_API, SEND_MONOLITH


class Warmth(Enum):
    """A function's protection against cold starts."""

    # One event poller invokes the function all day: its environment stays warm, and a deployment costs one cold start.
    NOTHING = "nothing"
    # The function scales out at once, for a broadcast or an opening dashboard. bootstrap() runs in the first
    # invocation, so a snapshot contains imports only: no state that would be stale or shared between environments.
    SNAPSTART = "SnapStart"
    # A user or a caller waits for each invocation, and traffic is small and even: one-time passwords, API responses.
    PROVISIONED = "provisioned concurrency"


DIRECTORY = (*CDC_TABLES, "device_state", "directory_state")
# masscomm/directory/opensearch.py
_LOOK_UPS = (
    "POST _mget",
    "POST devices/_search",
    "POST notification_templates/_search",
    "POST devices-{generation},notification_templates-{generation}/_refresh",
    f"GET _alias/{','.join(CDC_TABLES)}",
)
# functions/cdc_consumer/generation.py and masscomm/directory/bulk_writes.py
_GENERATION = "directory_state/_doc/generation-{generation}"
_CHANGES = (
    "POST _bulk",
    "POST _mget",
    f"GET {_GENERATION}",
    f"PUT {_GENERATION}",
    f"POST {','.join(f'{table}-{{generation}}' for table in CDC_TABLES)}/_refresh",
    f"GET _alias/{','.join(CDC_TABLES)}",
    "POST _aliases",
)
# functions/device_registrar/device_states.py
_DEVICE_STATES = (
    "POST _bulk",
    "POST device_state/_mget",
)
# functions/receipts/sent_messages.py
_MESSAGES = (
    "POST _bulk",
    "POST provider_messages/_search",
    "POST provider_messages/_mget",
    "POST provider_messages/_refresh",
    "POST provider_messages/_delete_by_query",
    "POST suppressions/_delete_by_query",
    "POST device_state/_search",
    "POST users/_mget",
)
# The role of the job that erases a person, after the environment's prefix.
ERASURE = "erasure"
# erasure/search_indices.py
ERASED_INDICES = ("users", "user_settings", "devices", "device_state", "provider_messages", "suppressions")
ERASURE_REQUESTS = (
    "POST _bulk",
    "POST _search/scroll",
    "DELETE suppressions/_doc/*",
    *(
        f"POST {index}/{call}"
        for index in (
            *("users-*", "user_settings-*", "devices-*", "users", "devices"),
            *("device_state", "provider_messages"),
        )
        for call in ("_refresh", "_search")
    ),
)
# Where MSK Connect stores source offsets; masscomm/cdc/progress.py reads them.
CONNECT_OFFSETS_TOPIC = "connect.offsets"
LEDGER, WAITING, DECISIONS = "delivery_ledger", "waiting", "decisions"
QUEUES, POLLS = "broadcast_queues", "open_polls"
METRICS_READER, METRICS_WRITER = "metrics_reader", "spark_metrics"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The stores, topics and providers that a function may use."""

    warmth: Warmth
    # The warmth of the function's critical lane, if it has one.
    critical: Warmth = Warmth.PROVISIONED
    # Indices of the directory that the domain's own role lets the function read; a captured table by its alias.
    indices: tuple[str, ...] = ()
    # Indices that the function may also write.
    written: tuple[str, ...] = ()
    # The function's requests to the directory, such as `POST users/_search`; {generation} stands for each generation.
    requests: tuple[str, ...] = ()
    # Tables of schemas/dynamodb that the function reads and writes.
    tables: tuple[str, ...] = ()
    # Tables that it only reads.
    tables_read: tuple[str, ...] = ()
    # Topics that it reads in all lanes, in addition to the topics of its event source mappings.
    reads: tuple[str, ...] = ()
    # It reads the progress of change data capture.
    asks_cdc: bool = False
    # It publishes through SNS.
    push: bool = False
    # It sends through SES.
    email: bool = False
    # It creates the SNS endpoints of devices.
    registers_endpoints: bool = False
    # SNS and SES invoke it with delivery statuses.
    receipts: bool = False
    # The user of the metrics database that it signs in as.
    database: str | None = None


PROFILES = {
    "preference_checker": Profile(
        warmth=Warmth.SNAPSTART,
        indices=DIRECTORY,
        requests=_LOOK_UPS,
        tables=(WAITING, DECISIONS, QUEUES),
        asks_cdc=True,
    ),
    "builder": Profile(
        warmth=Warmth.SNAPSTART, indices=DIRECTORY, requests=_LOOK_UPS, tables=(DECISIONS,), asks_cdc=True
    ),
    "delivery": Profile(
        warmth=Warmth.SNAPSTART,
        indices=(*DIRECTORY, "suppressions"),
        requests=_LOOK_UPS,
        tables=(LEDGER, WAITING),
        asks_cdc=True,
        push=True,
        email=True,
    ),
    "cdc_consumer": Profile(
        warmth=Warmth.NOTHING,
        indices=("directory_state",),
        written=(*CDC_TABLES, "directory_state"),
        requests=_CHANGES,
        asks_cdc=True,
    ),
    "device_registrar": Profile(
        warmth=Warmth.NOTHING,
        indices=("device_state",),
        written=("device_state",),
        requests=_DEVICE_STATES,
        registers_endpoints=True,
    ),
    "receipts": Profile(
        warmth=Warmth.NOTHING,
        indices=("provider_messages", "suppressions", "device_state", "users"),
        written=("provider_messages", "suppressions"),
        requests=_MESSAGES,
        tables=(WAITING,),
        receipts=True,
    ),
    "scheduler": Profile(
        warmth=Warmth.NOTHING,
        tables=(WAITING,),
        tables_read=(LEDGER,),
        reads=(SEND_MONOLITH, SEND_API, RECHECK, BUILD, DELIVERY),
    ),
    "send_handler": Profile(warmth=Warmth.PROVISIONED),
    "metrics_handler": Profile(warmth=Warmth.SNAPSTART, database=METRICS_READER),
    "metrics_stream": Profile(warmth=Warmth.SNAPSTART, database=METRICS_READER, tables=(POLLS,)),
}
