"""Log lines: JSON, each with the ids of the record it is about, and of no other.

    with about(ids_of(value), position=record.source_position): …

Every line inside says send_id, club_id (the tenant), record_id and whatever else is given, also where it comes from a
module that knows of none. The ids are the context's, not the logger's: another thread has its own (`carried` takes them
along), and they end where the block does.

Every text in a line is masked (masscomm.untrusted), in lines of libraries too.
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

# What a line says of a record, where the record has it.
IDS = ("send_id", "club_id", "record_id", "channel")


class _StandardOutput(logging.StreamHandler[TextIO]):
    """To standard output as it is when a line is written: a logger is made at import, and output may be moved since."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Where the next line goes."""
        return sys.stdout


def logger(service: str) -> Logger:
    """The logger of a function. service: its name, where the deployment does not say another."""
    name = os.environ.get("POWERTOOLS_SERVICE_NAME") or service
    mask_root_logger()  # of Lambda's runtime: libraries log through it
    return Logger(service=name, logger_handler=_StandardOutput(), use_rfc3339=True, utc=True, json_serializer=_line)


def _line(keys: Mapping[str, Any]) -> str:
    return visible_json(json.dumps(masked(keys), separators=(",", ":"), ensure_ascii=False))  # guard: masking.log_lines


def ids_of(value: Any) -> dict[str, Any]:
    """The ids of a record, or of whatever says by its attribute `about` which record it holds."""
    record = getattr(value, "about", value)
    found = {name: getattr(record, name, None) for name in IDS}
    return {name: each for name, each in found.items() if each is not None}


@contextmanager
def about(*several: Mapping[str, Any], **keys: Any) -> Iterator[None]:
    """These keys in every line inside, besides those of the outer block; None is left out."""
    given = {name: value for each in (*several, keys) for name, value in each.items() if value is not None}
    token = THREAD_LOCAL_KEYS.set({**THREAD_LOCAL_KEYS.get(), **given})
    try:
        yield
    finally:
        THREAD_LOCAL_KEYS.reset(token)


def note(**keys: Any) -> None:
    """These keys in every line until the block around it ends."""
    given = {name: value for name, value in keys.items() if value is not None}
    THREAD_LOCAL_KEYS.set({**THREAD_LOCAL_KEYS.get(), **given})


def carried[**P, T](work: Callable[P, T]) -> Callable[P, T]:
    """The work, for other threads, with the keys that hold here and now."""
    here = copy_context()

    def working(*args: P.args, **kwargs: P.kwargs) -> T:
        return here.copy().run(work, *args, **kwargs)  # a copy: two threads cannot be in one

    return working
