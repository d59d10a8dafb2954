"""The limits of a send, once: what POST /v1/sends accepts is within what preference_checker accepts.

Producers of send.monolith write Avro and meet the wider limits; a request over REST meets those and the narrower ones
that are named by field.
"""

# --- every send -------------------------------------------------------------------------------------------------------
# A record of send.*; schemas/topics.yaml lets larger ones through, so that they are seen and have outcomes.
MAX_RECORD_BYTES = 1_000_000
# A record whose own timestamp lies further than this after it was produced is not counted: its bucket is nobody's.
FAR_FUTURE_MS = 86_400_000
# Nor from this moment on (9999-01-01), whenever its producer's clock says that it was produced: where dates end.
END_OF_TIME_MS = 253_370_764_800_000
# A send beyond these is not counted, and nobody of it is told of. Postgres' index rows end at 2,704 bytes, a key holds
# several texts; without a bound on channels a record of 1 MB could ask for a hundred thousand outcomes a recipient.
LONGEST_TEXT = 200
MAX_CHANNELS = 16
# Further ahead is a mistake of units.
MAX_AHEAD_MS = 366 * 86_400_000
SEND_ID_PATTERN = r"^[A-Za-z0-9-]{1,64}$"
# Copied into every derived record: data and the texts next to it, in UTF-8.
MAX_DATA_BYTES = 100_000
# Text fields of a request, in characters.
MAX_TEMPLATE = 128
MAX_LOCALE = 64
MAX_COLLAPSE_KEY = 64
MAX_REFERENCE = 255
_BYTES_A_CHARACTER = 4
# guard: limits.copied_fields
MAX_COPIED_BYTES = MAX_DATA_BYTES + _BYTES_A_CHARACTER * (MAX_TEMPLATE + MAX_LOCALE + MAX_COLLAPSE_KEY + MAX_REFERENCE)

# --- every record derived from a send ---------------------------------------------------------------------------------
# In UTF-8. A record's id is a key of DynamoDB, alone (2,048 bytes) and with a due time in front (1,024).
# Source: Amazon DynamoDB developer guide, "Constraints in Amazon DynamoDB" (Constraints.html).
MAX_RECORD_ID_BYTES = 900

# --- a request over REST ----------------------------------------------------------------------------------------------
MAX_RECIPIENTS = 500_000
# Recipients of one chunk: a record of some 50 kB, and a batch the checker looks up at once.
CHUNK_SIZE = 5_000
MAX_DATA_KEYS = 200
MAX_DATA_KEY = 128
LARGEST_ID = 2**63 - 1
# A day less than the checker takes: its clock is another.
MAX_REQUEST_AHEAD_MS = MAX_AHEAD_MS - FAR_FUTURE_MS
