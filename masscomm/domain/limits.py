"""The limits of a send. preference_checker accepts every send that POST /v1/sends accepts.

Avro records that producers write to send.monolith have wide limits. Requests over REST also have a limit for each field
(FIELDS_OF_SEND).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from masscomm.domain.time_limits import LONGEST_PACE_S

# --- every send -------------------------------------------------------------------------------------------------------
# The largest record on a topic send.*, in bytes. schemas/topics.yaml permits larger records, so that they are consumed
# and their recipients get outcomes.
MAX_RECORD_BYTES = 1_000_000
# A time before this moment (2001-09-09) is taken for one in seconds, which would be in January 1970. A record with such
# a timestamp is not counted.
EARLIEST_MS = 10**12
# A record whose timestamp is more than this after its production time is not counted: the clock of its producer is
# wrong.
FAR_FUTURE_MS = 3_600_000
# A record with a timestamp at or after this moment is not counted either, whatever its production time is (9999-01-01,
# the end of the supported dates).
END_OF_TIME_MS = 253_370_764_800_000
# The latest time that RFC 3339 can write, with the last zone: 9999-12-31T23:59:59.999-23:59.
LATEST_WRITTEN_MS = 253_402_387_139_999
# A send with a longer text, or with more channels, is not counted, and its recipients get no outcomes. An index row of
# Postgres is limited to 2,704 bytes, and a key contains several texts. Without the limit on channels, a record of 1 MB
# could request a hundred thousand outcomes for each recipient.
LONGEST_TEXT = 200
MAX_CHANNELS = 16
# A send_at further ahead than this is taken for an error in the unit of time.
MAX_AHEAD_MS = 366 * 86_400_000
SEND_ID_PATTERN = r"^[A-Za-z0-9-]{1,64}$"
# The id of a send that a caller of the REST API chooses: a UUID in its canonical form. Ids of records and rows of
# metrics follow from it without the tenant, so another tenant must not be able to guess it.
CHOSEN_SEND_ID_PATTERN = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
# A regular expression for the name of a category or of a template.
NAME_PATTERN = r"^[A-Za-z0-9_.:-]{1,128}$"
# A well-formed language tag (RFC 5646, BCP 47, section 2.1) without the irregular tags of earlier RFCs. The sign _ is
# accepted in the place of -, as in de_CH.
LOCALE_PATTERN = (
    r"^([A-Za-z]{2,3}([-_][A-Za-z]{3}){0,3}|[A-Za-z]{4,8})"  # language
    r"([-_][A-Za-z]{4})?([-_]([A-Za-z]{2}|[0-9]{3}))?"  # script, region
    r"([-_]([A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*"  # variants
    r"([-_][0-9A-WY-Za-wy-z]([-_][A-Za-z0-9]{2,8})+)*"  # extensions
    r"([-_][Xx]([-_][A-Za-z0-9]{1,8})+)?$"  # private use
)
# An object that users follow, as KIND:OBJECT in characters of ASCII. With a user's id before it, it is the id of a
# document (masscomm.domain.row_ids).
FOLLOWS_PATTERN = r"^[A-Za-z0-9_.-]{1,64}:[!-~]{1,128}$"
# A date and time without a time zone.
LOCAL_TIME_PATTERN = r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$"
# The size limit of the send's data and texts in UTF-8, which are copied into every derived record.
MAX_DATA_BYTES = 100_000
# The size limit of the field push, as JSON in UTF-8: half of the payload that Apple and Firebase accept.
MAX_PUSH_BYTES = 2_048
# The size limits in UTF-8 of the variables of single recipients: in one chunk (with positions), and in one request over
# REST.
CHUNK_RECIPIENT_DATA_BYTES = 120_000
REQUEST_RECIPIENT_DATA_BYTES = 5_000_000
# The maximum number of recipients with variables of their own in one request.
MAX_RECIPIENT_DATA = 10_000
# --- templates --------------------------------------------------------------------------------------------------------
# The maximum length of a field of a template.
MAX_SOURCE_CHARACTERS = 200_000
# The processor time of a step (unit of rendering work), in seconds on one core of 2024.
STEP_S = 1e-6
# The limits of steps for all templates of a record, compiling included, or of a preview; for the warnings of a send;
# and for a page of templates. A batch of 20 such records takes 10 s, and with 512 MB in Lambda less than a minute.
RECORD_STEPS, WARNING_STEPS, PAGE_STEPS = 500_000, 100_000, 2_000_000
# --- every record derived from a send ---------------------------------------------------------------------------------
# The size limit of a record's id in UTF-8. The id is a partition key of DynamoDB (2,048 bytes) and, after a due time,
# part of a sort key (1,024 bytes). Source: Amazon DynamoDB developer guide, "Constraints in Amazon DynamoDB"
# (Constraints.html).
MAX_RECORD_ID_BYTES = 900

# The maximum length of an e-mail address: 64 octets, @ and 255 octets (RFC 5321, 4.5.3.1).
MAX_ADDRESS_BYTES = 320

# --- a request over REST ----------------------------------------------------------------------------------------------
MAX_RECIPIENTS = 500_000
# The number of sends in one request to POST /v1/sends/batch, and of recipients in each of them.
BATCH_SENDS = 1_000
BATCH_RECIPIENTS = 100
# The number of recipients in one chunk: a record of some 50 kB, and the batch that preference_checker looks up at once.
CHUNK_SIZE = 5_000
# The furthest that a send_at in a REST request may be in the future: one day less than preference_checker accepts,
# because the clocks of the two functions may differ.
MAX_REQUEST_AHEAD_MS = MAX_AHEAD_MS - 86_400_000
LARGEST_ID = 2**63 - 1
# The characters of a larger body: a send or a batch with one holds a slot of its caller, and routes whose requests are
# small refuse one. Reading 6 MB takes half a second of the processor.
LARGE_BODY = 100_000
# The requests of one kind that may take more than a second of the processor, of a caller and at the same time.
COSTLY_REQUESTS = 2
# The number of users about which numbers are shown without the scope users:read (masscomm.http.single_users).
SMALLEST_GROUP = 20
_LARGEST_INT = 2**31 - 1
# The requests by REST that one send may consist of.
MAX_PARTS = 1_000
_BYTES_A_CHARACTER = 4


@dataclass(frozen=True, kw_only=True)
class FieldLimit:
    """The limits of one field of a send."""

    # The maximum number of characters of a text, or of each text of a list.
    characters: int | None = None
    # A regular expression that a text must match.
    pattern: str | None = None
    # The maximum number of entries of a list or map.
    entries: int | None = None
    # The maximum number of characters of a map's key.
    key_characters: int | None = None
    # The maximum size of all keys and values of a map, or of a text in JSON, in UTF-8 bytes.
    total_bytes: int | None = None
    # The greatest value of a number, or of each number of a list.
    highest: int | None = None
    # How many milliseconds a time may be in the future.
    ahead_ms: int | None = None
    # The permitted texts; empty: any text.
    choices: tuple[str, ...] = ()

    @property
    def max_bytes(self) -> int:
        """Return the size in UTF-8 bytes of the longest permitted text or map."""
        return self.total_bytes or _BYTES_A_CHARACTER * (self.characters or 0)


# The limits of each field of a send, for requests over REST. A field that derived records copy counts towards
# MAX_COPIED_BYTES. tests/unit/test_limits.py compares the names with schemas/SendRequested.avsc.
FIELDS_OF_SEND: Mapping[str, FieldLimit] = MappingProxyType(
    {
        "type": FieldLimit(characters=128, pattern=NAME_PATTERN),
        "club_id": FieldLimit(highest=LARGEST_ID),
        "timestamp": FieldLimit(highest=END_OF_TIME_MS - 1),
        "to_users": FieldLimit(entries=MAX_RECIPIENTS, highest=LARGEST_ID),
        "send_id": FieldLimit(characters=36, pattern=CHOSEN_SEND_ID_PATTERN),
        "chunk_index": FieldLimit(highest=_LARGEST_INT),
        "chunk_count": FieldLimit(highest=_LARGEST_INT),
        "channels": FieldLimit(entries=MAX_CHANNELS, characters=LONGEST_TEXT),
        "template": FieldLimit(characters=128, pattern=NAME_PATTERN),
        "data": FieldLimit(entries=200, key_characters=128, total_bytes=MAX_DATA_BYTES),
        "recipient_data": FieldLimit(entries=MAX_RECIPIENT_DATA, total_bytes=CHUNK_RECIPIENT_DATA_BYTES),
        "locale": FieldLimit(characters=64, pattern=LOCALE_PATTERN),
        "priority": FieldLimit(choices=("bulk", "critical")),
        "expires_at": FieldLimit(highest=LATEST_WRITTEN_MS),
        "send_at": FieldLimit(ahead_ms=MAX_AHEAD_MS),
        "send_at_local": FieldLimit(ahead_ms=MAX_AHEAD_MS, pattern=LOCAL_TIME_PATTERN),
        "collapse_key": FieldLimit(characters=64),
        "reference": FieldLimit(characters=255),
        "digest": FieldLimit(total_bytes=1_000),
        "collected": FieldLimit(total_bytes=64_000),
        "push": FieldLimit(total_bytes=MAX_PUSH_BYTES),
        "follows": FieldLimit(characters=64 + 1 + 128, pattern=FOLLOWS_PATTERN),
        "principal": FieldLimit(characters=255),
        "fallbacks": FieldLimit(total_bytes=1_000),
        "per_minute": FieldLimit(highest=1_000_000),
        "spread_over_ms": FieldLimit(highest=round(LONGEST_PACE_S * 1000)),
    }
)
