"""The limits of a send. preference_checker accepts every send that POST /v1/sends accepts.

The wider limits apply to producers of send.monolith, which write Avro. REST requests have the wider limits and the
narrower limits of single fields.
"""

# --- every send -------------------------------------------------------------------------------------------------------
# A record of send.*; schemas/topics.yaml allows larger records, so that they are consumed and have outcomes.
MAX_RECORD_BYTES = 1_000_000
# A record whose own timestamp is more than this after its production is not counted: no bucket takes it.
FAR_FUTURE_MS = 86_400_000
# Nor is a record counted if its timestamp is at or after this moment (9999-01-01, where dates end), whatever production
# time its producer's clock gave it.
END_OF_TIME_MS = 253_370_764_800_000
# A send beyond these limits is not counted, and its recipients have no outcomes. Postgres' index rows end at 2,704
# bytes, and a key contains several texts. Without a limit on channels, a record of 1 MB could request a hundred
# thousand outcomes for each recipient.
LONGEST_TEXT = 200
MAX_CHANNELS = 16
# A send_at further ahead is a mistake of units.
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
# Recipients of one chunk: a record of some 50 kB, and a batch that preference_checker looks up at once.
CHUNK_SIZE = 5_000
MAX_DATA_KEYS = 200
MAX_DATA_KEY = 128
LARGEST_ID = 2**63 - 1
# A day less than preference_checker accepts: its clock is another one.
MAX_REQUEST_AHEAD_MS = MAX_AHEAD_MS - FAR_FUTURE_MS
