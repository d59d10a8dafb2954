"""The stores and providers that each function uses, and how it is protected against cold starts. schemas/topics.yaml
has its topics.

Each function of functions/functions.yaml has one profile; tests/unit/infra checks this.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from masscomm.cdc.captured_tables import captured_tables, personal_tables
from masscomm.directory.own_documents import INDICES as OWN_INDICES
from masscomm.domain.source_tables import MEMBERSHIPS, is_mapped
from masscomm.kafka.topics import BUILD, DELIVERY, RECHECK, SEND_API, SEND_MONOLITH, SUBSCRIPTION


class Warmth(Enum):
    """How a function is protected against cold starts."""

    # No protection: one event poller invokes the function all day, which keeps its environment warm. A deployment costs
    # one cold start.
    NOTHING = "nothing"
    # SnapStart, for a function that scales out suddenly, such as for a broadcast or for a dashboard that is opened.
    # bootstrap() runs in the first invocation, so that a snapshot contains only imports, and no state that could be
    # stale or shared between environments.
    SNAPSTART = "SnapStart"
    # Provisioned concurrency, for a function whose callers wait for each invocation and whose traffic is small and
    # even: one-time passwords, API responses.
    PROVISIONED = "provisioned concurrency"


DIRECTORY = (*captured_tables(), "device_state", "directory_state", "preference_changes", "tenant_preferences")
# The requests to OpenSearch of masscomm/directory/opensearch.py.
_LOOK_UPS = (
    "POST _mget",
    "POST devices/_search",
    "POST notification_templates/_search",
    "POST devices-{generation},notification_templates-{generation}/_refresh",
    f"GET _alias/{','.join(captured_tables())}",
)
# The requests to OpenSearch of _users_of_club in masscomm/directory/opensearch.py. A search in a point in time does not
# name its index in the path.
_USERS_OF_CLUB = (
    "POST users/_refresh",
    "POST users/_search/point_in_time",
    "POST _search",
    "DELETE _search/point_in_time",
)
# The same of _followers.
_FOLLOWERS = ("POST memberships/_refresh", "POST memberships/_search/point_in_time") if is_mapped(MEMBERSHIPS) else ()
# The requests to OpenSearch of functions/cdc_consumer/generation.py and masscomm/directory/bulk_writes.py.
_GENERATION = "directory_state/_doc/generation-{generation}"
_CHANGES = (
    "POST _bulk",
    "POST _mget",
    f"GET {_GENERATION}",
    f"PUT {_GENERATION}",
    f"POST {','.join(f'{table}-{{generation}}' for table in captured_tables())}/_refresh",
    f"GET _alias/{','.join(captured_tables())}",
    "POST _aliases",
)
# The requests to OpenSearch of functions/device_registrar/device_states.py, masscomm/directory/generations.py and
# masscomm/directory/document_publisher.py.
_DEVICE_STATES = (
    "POST _bulk",
    "POST device_state/_mget",
    "POST directory_state/_mget",
)
# The requests to OpenSearch of functions/receipts/sent_messages.py and masscomm/directory/document_publisher.py.
_MESSAGES = (
    "POST _bulk",
    "POST provider_messages/_search",
    "POST provider_messages/_mget",
    "POST provider_messages/_refresh",
    "POST provider_messages/_delete_by_query",
    "POST suppressions/_mget",
    "POST device_state/_search",
    "POST users/_mget",
)
# The requests of the look-up by phone number in masscomm/directory/opensearch.py, and of a changed preference.
_ANSWERS = ("POST users/_refresh", "POST users/_search", "POST _mget")
# The requests to OpenSearch of masscomm/directory/preference_changes.py and masscomm/directory/document_publisher.py.
_PREFERENCES = (
    "POST _bulk",
    "POST preference_changes/_mget",
    "POST preference_changes/_search",
)
# The requests to OpenSearch of the person and the users of a page in masscomm/directory/opensearch.py, and the indices.
_PERSON = ("POST _mget", "POST devices/_search")
_OF_PERSON = (*personal_tables(), "device_state", "preference_changes", "tenant_preferences")
# The requests to OpenSearch of masscomm/directory/own_document_index.py and masscomm/directory/document_publisher.py.
_OWN_DOCUMENTS = (
    "POST _bulk",
    *(
        call.format(index=index)
        for index in OWN_INDICES
        for call in (
            "GET {index}/_stats/docs",
            "POST {index}/_refresh",
            "POST {index}/_search",
            "POST {index}/_mget",
            "GET directory_state/_doc/published-{index}",
            "PUT directory_state/_doc/published-{index}",
        )
    ),
)
# The requests to OpenSearch of masscomm/directory/suppression_list.py.
_SUPPRESSIONS = (
    "POST suppressions/_search",
    "POST suppressions/_mget",
    "POST suppressions/_refresh",
    "POST _bulk",
)
# The requests to OpenSearch of masscomm/directory/disabled_devices.py.
_DISABLED_DEVICES = ("POST device_state/_search", "POST _mget")
# The suffix of the name of the role of directory_state, the index that it reads, and its requests to OpenSearch
# (masscomm/directory/own_document_index.py).
DIRECTORY_STATE = "directory-state"
DIRECTORY_STATE_INDICES = ("directory_state",)
DIRECTORY_STATE_REQUESTS = tuple(f"GET directory_state/_doc/published-{index}" for index in OWN_INDICES)
# The variable of infra.provision that is set if the environment has directory_state.
WITH_STATE = "DIRECTORY_STATE"
# The suffix of the name of the role with which the erasure job runs.
ERASURE = "erasure"
# The suffix of the name of the role of operators' commands, the indices that they change, and their requests. A rebuild
# of the directory writes as cdc_consumer and the scheduler do (ops/directory_rebuild.py).
OPERATOR = "operator"
OPERATOR_INDICES = (*captured_tables(), *OWN_INDICES, "directory_state")
OPERATOR_REQUESTS = tuple(dict.fromkeys((*_SUPPRESSIONS, *_CHANGES, *_OWN_DOCUMENTS, "POST directory_state/_mget")))
# The part of a secret's name under which that job finds addresses (infra/erase.py).
ADDRESSES = "erased-addresses"
# The indices that ops/erasure/search_indices.py changes.
ERASED_INDICES = (*personal_tables(), "device_state", "preference_changes", "provider_messages", "suppressions")
ERASURE_REQUESTS = (
    "POST _bulk",
    "POST _search/scroll",
    *(
        f"POST {index}/{call}"
        for index in (
            *(f"{table}-*" for table in personal_tables()),
            *("users", "devices"),
            *("device_state", "preference_changes", "provider_messages", "suppressions"),
        )
        for call in ("_refresh", "_search")
    ),
)
# The topic in which Kafka Connect stores source offsets; masscomm/cdc/progress.py reads it.
CONNECT_OFFSETS_TOPIC = "connect.offsets"
LEDGER, WAITING, DECISIONS = "delivery_ledger", "waiting", "decisions"
QUEUES, POLLS, KEYS = "broadcast_queues", "open_polls", "idempotency_keys"
SENDS, USAGE, AUDIT = "sends", "key_usage", "audit_log"
ENDPOINTS, UNDELIVERED = "webhook_endpoints", "webhook_dead_letters"
CATEGORIES, FREQUENCY_CAPS = "categories", "frequency_caps"
EVENT_TYPES, SUBSCRIPTIONS, EVENT_IDS = "event_types", "subscriptions", "event_ids"
SOURCES = "webhook_sources"
# The index of the delayed records by their sends.
BY_SEND = "by_send"
LISTED = "listed"
# The table of API keys, which the authorizer uses, too.
API_KEYS = "api_keys"
# The index of that table that lists the keys.
BY_CREATION = "by_creation"
METRICS_READER, METRICS_WRITER = "metrics_reader", "spark_metrics"
# The registry's database, which has an instance of its own or is in that of the metrics.
REGISTRY_DATABASE = "registry"
# The user of that database that owns its tables. Another user of the secret acts as this one.
REGISTRY_OWNER = "registry"
# The role that owns the tables of the metrics database; the writer's sessions act as it.
METRICS_OWNER = "metrics_owner"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The stores, topics and providers that a function may use."""

    warmth: Warmth
    # The protection of the function's critical lane, if it has one.
    critical: Warmth = Warmth.PROVISIONED
    # The OpenSearch indices that the function's role may read; a captured table is named by its alias.
    indices: tuple[str, ...] = ()
    # The OpenSearch indices that the function may also write.
    written: tuple[str, ...] = ()
    # The function's requests to OpenSearch, such as `POST users/_search`; {generation} stands for each snapshot
    # generation.
    requests: tuple[str, ...] = ()
    # The tables of schemas/dynamodb that the function reads and writes.
    tables: tuple[str, ...] = ()
    # The tables of schemas/dynamodb that the function only reads.
    tables_read: tuple[str, ...] = ()
    # The tables of schemas/dynamodb whose items the function only updates.
    tables_updated: tuple[str, ...] = ()
    # Whether the function emits outcome records, whose results it puts into the register of sends
    # (masscomm/stores/send_results).
    emits_outcomes: bool = False
    # The indices of tables of schemas/dynamodb that the function queries: table and index.
    table_indices: tuple[tuple[str, str], ...] = ()
    # The topics that the function reads in all lanes (kinds of sends), in addition to those of its event source
    # mappings.
    reads: tuple[str, ...] = ()
    # Whether the function looks up in the directory (masscomm/directory/port.py).
    looks_up: bool = False
    # Whether the function reads the progress of change data capture.
    asks_cdc: bool = False
    # Whether the function checks the fields of sends.
    checks_sends: bool = False
    # Whether the function asks how far receipts has consumed the outcomes.
    asks_outcomes: bool = False
    # Whether it chooses the broadcast queue of a record.
    chooses_queue: bool = False
    # Whether it appends tombstones to the changelogs of captured rows.
    marks_changelogs: bool = False
    # Whether it returns the batches that Lambda discards in on-demand mode to their topics.
    returns_batches: bool = False
    # Whether the function publishes through SNS.
    push: bool = False
    # Whether the function sends through SES.
    email: bool = False
    # Whether the function reads which senders of e-mails SES accepts.
    checks_senders: bool = False
    # Whether the function sends SMS.
    sms: bool = False
    # Whether the function signs or verifies unsubscribe links.
    unsubscribe_links: bool = False
    # Whether SES invokes the function with the e-mails to the unsubscribe mailbox.
    reads_mailbox: bool = False
    # Whether the function signs webhooks, or shows the secrets of their endpoints.
    webhook_keys: bool = False
    # The operations of KMS with the key of the credentials of webhook endpoints: GenerateDataKey seals, Decrypt opens.
    webhook_secrets: tuple[Literal["GenerateDataKey", "Decrypt"], ...] = ()
    # Whether the function calls servers in the Internet. It is outside the VPC then, and reaches none of its servers.
    calls_internet: bool = False
    # Whether the function assumes roles of tenants, in their accounts.
    assumes_roles: bool = False
    # Whether the function makes sources of incoming webhooks, and shows their addresses.
    makes_sources: bool = False
    # Whether the function creates the SNS endpoints of devices.
    registers_endpoints: bool = False
    # Whether SNS and SES invoke the function with delivery statuses.
    receipts: bool = False
    # Whether the function reads and replays dead letters, and measures the lag of the others.
    operates: bool = False
    # The user of the metrics database with which the function signs in; None if it does not use the database.
    database: str | None = None

    @property
    def every_table(self) -> tuple[str, ...]:
        of_outcomes = (SENDS,) if self.emits_outcomes else ()
        return tuple(dict.fromkeys((*self.tables, *self.tables_read, *self.tables_updated, *of_outcomes)))


# The functions with the package of webhook_sender.
_SENDER = Profile(
    warmth=Warmth.SNAPSTART,
    tables=(ENDPOINTS, LEDGER, WAITING, UNDELIVERED, AUDIT),
    webhook_keys=True,
    webhook_secrets=("Decrypt",),
    calls_internet=True,
    assumes_roles=True,
)

PROFILES = {
    "preference_checker": Profile(
        warmth=Warmth.SNAPSTART,
        checks_sends=True,
        looks_up=True,
        indices=DIRECTORY,
        requests=_LOOK_UPS,
        tables=(WAITING, DECISIONS, QUEUES, SENDS, FREQUENCY_CAPS),
        tables_read=(CATEGORIES,),
        emits_outcomes=True,
        asks_cdc=True,
        asks_outcomes=True,
        chooses_queue=True,
    ),
    "builder": Profile(
        warmth=Warmth.SNAPSTART,
        looks_up=True,
        indices=DIRECTORY,
        requests=_LOOK_UPS,
        tables=(DECISIONS,),
        tables_read=(SENDS, CATEGORIES),
        emits_outcomes=True,
        asks_cdc=True,
    ),
    "delivery": Profile(
        warmth=Warmth.SNAPSTART,
        looks_up=True,
        indices=(*DIRECTORY, "suppressions"),
        requests=_LOOK_UPS,
        tables=(LEDGER, WAITING, USAGE, SENDS, AUDIT),
        tables_read=(CATEGORIES,),
        emits_outcomes=True,
        asks_cdc=True,
        push=True,
        email=True,
        sms=True,
        unsubscribe_links=True,
    ),
    "cdc_consumer": Profile(
        warmth=Warmth.NOTHING,
        indices=("directory_state",),
        written=(*captured_tables(), "directory_state"),
        requests=_CHANGES,
        asks_cdc=True,
    ),
    "device_registrar": Profile(
        warmth=Warmth.NOTHING,
        indices=("device_state", "directory_state"),
        written=("device_state",),
        requests=_DEVICE_STATES,
        registers_endpoints=True,
    ),
    "receipts": Profile(
        warmth=Warmth.NOTHING,
        looks_up=True,
        indices=(*DIRECTORY, "provider_messages", "suppressions"),
        written=("provider_messages", "suppressions", "preference_changes"),
        requests=tuple(dict.fromkeys((*_MESSAGES, *_PREFERENCES, *_PERSON, *_ANSWERS))),
        tables=(WAITING, FREQUENCY_CAPS, USAGE, SENDS, AUDIT),
        tables_read=(CATEGORIES,),
        emits_outcomes=True,
        receipts=True,
    ),
    "scheduler": Profile(
        warmth=Warmth.NOTHING,
        checks_sends=True,
        indices=(*OWN_INDICES, "directory_state"),
        written=("suppressions", "preference_changes", "directory_state"),
        requests=_OWN_DOCUMENTS,
        tables=(WAITING,),
        tables_read=(LEDGER, SENDS),
        emits_outcomes=True,
        table_indices=((WAITING, BY_SEND),),
        reads=(SEND_MONOLITH, SEND_API, RECHECK, BUILD, DELIVERY),
        chooses_queue=True,
        returns_batches=True,
        marks_changelogs=True,
    ),
    "send_handler": Profile(
        warmth=Warmth.PROVISIONED,
        checks_sends=True,
        looks_up=True,
        # For the warnings about a send's texts.
        indices=("notification_templates",),
        requests=("POST notification_templates/_search",),
        tables=(KEYS, SENDS, USAGE, AUDIT, POLLS, CATEGORIES, WAITING),
        checks_senders=True,
    ),
    "previews": Profile(
        warmth=Warmth.SNAPSTART,
        checks_sends=True,
        looks_up=True,
        # A dry run reads what the chain reads.
        indices=(*DIRECTORY, "suppressions"),
        requests=(
            *("POST _mget", "POST notification_templates/_search", "POST devices/_search"),
            *_USERS_OF_CLUB,
            *_FOLLOWERS,
        ),
        tables=(USAGE, POLLS),
        tables_read=(SENDS, CATEGORIES, FREQUENCY_CAPS),
    ),
    "preferences_handler": Profile(
        warmth=Warmth.SNAPSTART,
        looks_up=True,
        indices=(*DIRECTORY, "suppressions"),
        written=("preference_changes", "tenant_preferences"),
        requests=(*_PREFERENCES, *_PERSON, "POST users/_search", "POST tenant_preferences/_mget"),
        tables=(USAGE, AUDIT),
        tables_read=(CATEGORIES,),
        unsubscribe_links=True,
        reads_mailbox=True,
    ),
    "users_stream": Profile(
        warmth=Warmth.SNAPSTART,
        looks_up=True,
        indices=(*_OF_PERSON, "suppressions"),
        requests=_PERSON,
        tables=(USAGE, AUDIT, POLLS),
        tables_read=(CATEGORIES,),
    ),
    "audience_expander": Profile(
        warmth=Warmth.NOTHING,
        looks_up=True,
        indices=DIRECTORY,
        requests=(*_LOOK_UPS, *_USERS_OF_CLUB, *_FOLLOWERS),
        tables=(SENDS, USAGE, WAITING, CATEGORIES),
        tables_read=(API_KEYS,),
        asks_cdc=True,
    ),
    "audiences": Profile(
        warmth=Warmth.SNAPSTART,
        looks_up=True,
        indices=("users", "user_settings", "devices", "device_state", "preference_changes"),
        requests=("POST _mget", "POST devices/_search", *_USERS_OF_CLUB, *_FOLLOWERS),
        tables=(USAGE, POLLS),
        tables_read=(CATEGORIES,),
    ),
    "metrics_handler": Profile(warmth=Warmth.SNAPSTART, database=METRICS_READER, tables=(USAGE,)),
    "metrics_stream": Profile(warmth=Warmth.SNAPSTART, database=METRICS_READER, tables=(POLLS, USAGE)),
    "sends_api": Profile(
        warmth=Warmth.SNAPSTART,
        database=METRICS_READER,
        tables=(SENDS, WAITING, USAGE, AUDIT),
        tables_read=(CATEGORIES,),
        table_indices=((WAITING, BY_SEND), (SENDS, LISTED)),
    ),
    "sends_stream": Profile(
        warmth=Warmth.SNAPSTART,
        database=METRICS_READER,
        tables=(POLLS, USAGE),
        tables_read=(SENDS,),
    ),
    "operations_handler": Profile(
        warmth=Warmth.SNAPSTART,
        indices=("suppressions", "device_state", "devices", "users"),
        written=("suppressions",),
        requests=(*_SUPPRESSIONS, *_DISABLED_DEVICES),
        database=METRICS_READER,
        tables=(
            *(API_KEYS, KEYS, AUDIT, USAGE, ENDPOINTS, EVENT_IDS, UNDELIVERED, SUBSCRIPTIONS, WAITING, POLLS),
            CATEGORIES,
        ),
        tables_read=(SENDS, EVENT_TYPES),
        table_indices=((API_KEYS, BY_CREATION), (SENDS, LISTED)),
        operates=True,
        webhook_keys=True,
        webhook_secrets=("GenerateDataKey",),
    ),
    "key_revocation": Profile(warmth=Warmth.SNAPSTART, tables=(API_KEYS, AUDIT, USAGE, POLLS)),
    "events_api": Profile(
        warmth=Warmth.SNAPSTART,
        tables=(EVENT_TYPES, SUBSCRIPTIONS, EVENT_IDS, SOURCES, AUDIT, USAGE, POLLS),
        tables_read=(ENDPOINTS, CATEGORIES),
        makes_sources=True,
        webhook_secrets=("GenerateDataKey",),
    ),
    "webhook_receiver": Profile(
        warmth=Warmth.SNAPSTART,
        tables=(EVENT_IDS, SOURCES),
        tables_read=(EVENT_TYPES,),
        webhook_secrets=("Decrypt",),
    ),
    "event_matcher": Profile(
        warmth=Warmth.SNAPSTART,
        tables=(USAGE,),
        tables_read=(EVENT_TYPES, API_KEYS, CATEGORIES),
        tables_updated=(SUBSCRIPTIONS,),
        reads=(SUBSCRIPTION,),
    ),
    "webhook_sender": _SENDER,
    "webhook_batch_sender": _SENDER,
    "webhook_retry_sender": _SENDER,
    "webhook_events": Profile(
        warmth=Warmth.NOTHING,
        tables=(SENDS, EVENT_IDS, SUBSCRIPTIONS),
        tables_read=(ENDPOINTS,),
        reads=(SUBSCRIPTION,),
        database=METRICS_READER,
    ),
}
