"""Log lines in JSON, each with the ids of its own record and of no other.

    with about(ids_of(value), position=record.source_position): …

Every line inside the block contains send_id, club_id (the tenant), record_id and the other keys, also if its module
does not have them. The ids belong to the context, not to the logger: another thread has its own (`carried` copies them
to it), and they end with the block.

Every text in a line is masked (masscomm.untrusted), also in lines of libraries.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TextIO

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import THREAD_LOCAL_KEYS

from masscomm.untrusted import mask_root_logger, masked, visible_json

# Attributes of a record that log lines contain, if the record has them.
IDS = ("send_id", "club_id", "record_id", "channel")


class _StandardOutput(logging.StreamHandler[TextIO]):
    """Writes to the current sys.stdout, which may have been redirected since the logger was created at import."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """The stream of the next line."""
        return sys.stdout


def logger(service: str) -> Logger:
    """Return the logger of a function.

    Args:
        service: the function's name, unless POWERTOOLS_SERVICE_NAME is set.
    """
    name = os.environ.get("POWERTOOLS_SERVICE_NAME") or service
    mask_root_logger()  # Lambda's runtime configures it, and libraries log through it
    return Logger(service=name, logger_handler=_StandardOutput(), use_rfc3339=True, utc=True, json_serializer=_line)


def _line(keys: Mapping[str, Any]) -> str:
    return visible_json(json.dumps(masked(keys), separators=(",", ":"), ensure_ascii=False))  # guard: masking.log_lines


def ids_of(value: Any) -> dict[str, Any]:
    """Return the ids of a record, or of an object whose attribute `about` is a record."""
    record = getattr(value, "about", value)
    found = {name: getattr(record, name, None) for name in IDS}
    return {name: each for name, each in found.items() if each is not None}


@contextmanager
def about(*several: Mapping[str, Any], **keys: Any) -> Iterator[None]:
    """Add keys to every line inside the block, in addition to the outer block's keys. Values of None are omitted."""
    given = {name: value for each in (*several, keys) for name, value in each.items() if value is not None}
    token = THREAD_LOCAL_KEYS.set({**THREAD_LOCAL_KEYS.get(), **given})
    try:
        yield
    finally:
        THREAD_LOCAL_KEYS.reset(token)


def note(**keys: Any) -> None:
    """Add keys to every line until the current block ends. Values of None are omitted."""
    given = {name: value for name, value in keys.items() if value is not None}
    THREAD_LOCAL_KEYS.set({**THREAD_LOCAL_KEYS.get(), **given})


def carried[**P, T](work: Callable[P, T]) -> Callable[P, T]:
    """Return the function with the current keys, for calls in other threads."""
    here = copy_context()

    def working(*args: P.args, **kwargs: P.kwargs) -> T:
        return here.copy().run(work, *args, **kwargs)  # a copy, because two threads cannot run in one context

    return working
