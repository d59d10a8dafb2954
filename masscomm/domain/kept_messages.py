"""The message of a send, as the register keeps it: the template's name, and the variables that all recipients share.
The variables of single recipients (`recipient_data`) are never kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# The largest variables that are kept, in bytes: the most that a send over REST has. DynamoDB's limit of an item is
# 400 kB.
MAX_MESSAGE_BYTES = 100_000


class NotKept(StrEnum):
    """Why there is no message of a send. The last two are never stored."""

    # The category, or that of the template, is mandatory or not listed: the message may be a one-time password.
    CATEGORY = "category"
    # The send is in the critical lane.
    CRITICAL = "critical"
    # A small send by Kafka, of which there are thousands a second: an item more for each would double its price.
    SMALL = "small"
    # The variables are larger than MAX_MESSAGE_BYTES.
    TOO_LARGE = "too_large"
    # Its time has passed.
    EXPIRED = "expired"
    # It was deleted when a recipient was erased, or nothing is known of it any more.
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class KeptMessage:
    """The message of a send."""

    type: str
    channels: tuple[str, ...]
    template: str | None = None
    locale: str | None = None
    # The variables that all recipients share.
    data: Mapping[str, str]
    # The options of its pushes (masscomm.domain.push_options).
    push: str | None = None
    # The users if they are few (masscomm.domain.limits.SMALLEST_GROUP). The variables may be values of one of them, so
    # the message is deleted when that user is erased.
    user_ids: tuple[int, ...] = ()
