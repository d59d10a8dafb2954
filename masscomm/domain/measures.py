"""The measures of the metrics: each counts the notifications (one user on one channel) of one step or status."""

from masscomm.domain.statuses import Status

REQUESTED = "requested"  # the distinct users of a chunk, on each channel
DUPLICATE = "duplicate"  # repetitions of a user in a chunk by the producer, on each channel; never sent twice
QUEUED = Status.QUEUED.value  # written for delivery

# The other measures are the statuses of the outcome records.
MEASURES = (REQUESTED, DUPLICATE, *(status.value for status in Status))

# Length of a precomputed window of the view `trending`, in minutes: one window ends with each minute.
TRENDING_WINDOW_MIN = 15
