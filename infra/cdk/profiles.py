"""What each function accesses besides its topics, and how it is kept warm. Topics are schemas/topics.yaml's to say.

Every function of functions/functions.yaml has a profile, and every profile a function: tests/unit/infra says so.
"""

from dataclasses import dataclass
from enum import Enum

from masscomm.kafka.topics import BUILD, CDC_TABLES, DELIVERY, RECHECK, SEND_API, SEND_MONOLITH


class Warmth(Enum):
    """What is done about cold starts."""

    NOTHING = "nothing"
    """One poller calls it all day long: an environment is warm, and one cold start after a deployment hurts nobody."""
    SNAPSTART = "SnapStart"
    """It grows from few environments to many at once: a broadcast, an opening dashboard. bootstrap() runs at the first
    invocation, so a snapshot holds imports and nothing that would be shared between environments or be stale."""
    PROVISIONED = "provisioned concurrency"
    """Somebody waits for each single invocation, and the traffic is small and even: a password, an answer."""


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
    """What a function may use.

    indices, written: of the directory, a captured table by its alias: what the domain's own role lets it read and
    write; requests: `POST users/_search`, every path it asks for there, {generation} filled in; tables: of
    schemas/dynamodb, read and written, and tables_read: those it only reads; reads: topics besides those it is
    triggered by, in all lanes; asks_cdc: how far change data capture has come; push, email: publishes;
    registers_endpoints: makes devices' endpoints; receipts: SNS and SES tell it what became of messages; database:
    the user it signs in as;
    critical: the warmth of its critical lane, where it has one.
    """

    warmth: Warmth
    critical: Warmth = Warmth.PROVISIONED
    indices: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    tables_read: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    asks_cdc: bool = False
    push: bool = False
    email: bool = False
    registers_endpoints: bool = False
    receipts: bool = False
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
