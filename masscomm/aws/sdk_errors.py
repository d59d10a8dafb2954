"""Converts botocore's errors of calls without a response, by boto3's clients or ours (masscomm.aws.client)."""

from collections.abc import Iterator
from contextlib import contextmanager

from masscomm.errors import Retry


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Raise Retry if a call in this context has no response, or one that botocore cannot parse. ClientError, which
    botocore raises for an error response, is raised unchanged.
    """
    from botocore.exceptions import BotoCoreError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except (BotoCoreError, ResponseParserError, KeyError) as error:  # KeyError: XML without the element of the result
        raise Retry(f"{what} did not answer: {type(error).__name__}") from error
