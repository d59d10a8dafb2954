"""What the metrics count: each measure is how many notifications (one user on one channel) reached it."""

from masscomm.statuses import Status

REQUESTED = "requested"  # asked for: the distinct users of a chunk, on each channel
DUPLICATE = "duplicate"  # named again inside a chunk, on each channel: the producer's, never sent twice
QUEUED = Status.QUEUED.value  # written for delivery

# The rest is what the outcome records say, status by status.
MEASURES = (REQUESTED, DUPLICATE, *(status.value for status in Status))

# A record whose own timestamp lies further than this after it was produced is not counted: its bucket is nobody's.
FAR_FUTURE_MS = 86_400_000
# Nor from this moment on (9999-01-01), whenever its producer's clock says that it was produced: where dates end.
END_OF_TIME_MS = 253_370_764_800_000

# A send beyond these is not counted, and nobody of it is told of. Postgres' index rows end at 2,704 bytes, a key holds
# several texts; without a bound on channels a record of 1 MB could ask for a hundred thousand outcomes a recipient.
LONGEST_TEXT = 200
MAX_CHANNELS = 16

# What the view `trending` sums beforehand: one window ends with each minute.
TRENDING_WINDOW_MIN = 15
