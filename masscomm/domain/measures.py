"""What the metrics count: each measure is how many notifications (one user on one channel) reached it."""

from masscomm.domain.statuses import Status

REQUESTED = "requested"  # asked for: the distinct users of a chunk, on each channel
DUPLICATE = "duplicate"  # named again inside a chunk, on each channel: the producer's, never sent twice
QUEUED = Status.QUEUED.value  # written for delivery

# The rest is what the outcome records say, status by status.
MEASURES = (REQUESTED, DUPLICATE, *(status.value for status in Status))

# What the view `trending` sums beforehand: one window ends with each minute.
TRENDING_WINDOW_MIN = 15
