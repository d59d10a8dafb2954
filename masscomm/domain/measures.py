"""The measures of the metrics: each measure counts the notifications (one user on one channel) at one processing
step or with one status.
"""

from masscomm.domain.statuses import Status

REQUESTED = "requested"  # Counts the distinct users in a record of a send, on each channel.
# Counts users that a producer repeated in a record of a send, on each channel. Nothing is sent to them twice.
DUPLICATE = "duplicate"
QUEUED = Status.QUEUED.value  # Counts notifications that are written for delivery.

# The other measures are the statuses of the outcome records.
MEASURES = (REQUESTED, DUPLICATE, *(status.value for status in Status))
