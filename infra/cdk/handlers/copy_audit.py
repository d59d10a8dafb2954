"""A Lambda function that copies the changes of the audit log into a bucket under object lock.

The stream of the table `audit_log` invokes it with the changes of a shard in their order: entries that were added, and
deletions and changes, which no function of masscomm makes, and those of expired entries. A batch becomes one object
with a change a line. A batch that is repeated, perhaps with further changes, becomes another version of the same
object: versions are kept, too.

Environment variables: BUCKET names the bucket.
"""

import json
import os
from datetime import UTC, datetime
from typing import Any

import boto3


def handler(event: dict[str, Any], _context: object) -> None:
    """Store one batch of the stream. An error repeats the batch."""
    changes = event["Records"]
    first = changes[0]["dynamodb"]
    day = datetime.fromtimestamp(first["ApproximateCreationDateTime"], UTC).date()
    boto3.client("s3").put_object(
        Bucket=os.environ["BUCKET"],
        Key=f"{day.isoformat()}/{first['SequenceNumber']}.jsonl",
        Body="".join(f"{_line(each)}\n" for each in changes).encode(),
        ContentType="application/jsonl",
        # A bucket with a default retention takes no object without a checksum.
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock-managing.html
        ChecksumAlgorithm="SHA256",
    )


def _line(change: dict[str, Any]) -> str:
    """Return a change in one line of JSON: its kind, its maker if that is the service itself, and both items."""
    kept = {"change": change["eventName"], "by": change.get("userIdentity"), **change["dynamodb"]}
    return json.dumps({name: value for name, value in kept.items() if value is not None}, default=str, sort_keys=True)
