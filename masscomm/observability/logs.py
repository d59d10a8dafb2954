"""Writes log lines in JSON. Each line has the ids of the record that it is about, and of no other record.

    with about(ids_of(value), position=record.source_position): …

Every line inside the block contains send_id, club_id (the tenant), record_id and the other keys, even if the module
that logs does not know them. The ids are stored in a context variable, not in the logger: another thread has its own
values (`carried` copies them), and they are removed when the block ends.

Every text in a line is masked (masscomm.untrusted), including lines of libraries.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import THREAD_LOCAL_KEYS

from masscomm.observability.streams import LogStream
from masscomm.untrusted import mask_root_logger, masked, visible_json

# The attributes of a record that log lines contain, if the record has them.
IDS = ("send_id", "club_id", "record_id", "channel")


def logger(service: str) -> Logger:
    """Return the logger of a function.

    Args:
        service: The function's name, which POWERTOOLS_SERVICE_NAME overrides.
    """
    name = os.environ.get("POWERTOOLS_SERVICE_NAME") or service
    # Lambda's runtime configures the root logger, and libraries log through it.
    mask_root_logger()
    return Logger(service=name, logger_handler=LogStream(), use_rfc3339=True, utc=True, json_serializer=_line)


def _line(keys: Mapping[str, Any]) -> str:
    return visible_json(json.dumps(masked(keys), separators=(",", ":"), ensure_ascii=False))  # guard: masking.log_lines


def ids_of(value: Any) -> dict[str, Any]:
    """Return the ids of a record, or of an object whose attribute `about` is a record."""
    record = getattr(value, "about", value)
    return {name: each for name in IDS if (each := getattr(record, name, None)) is not None}


class about:
    """Add keys to every log line inside this context, in addition to those of outer contexts. Keys with the value
    None are omitted.

    It is a class because each record enters it two or three times: contextlib's decorator takes twice as long.
    """

    __slots__ = ("_keys", "_token")

    def __init__(self, ids: Mapping[str, Any] | None = None, /, **keys: Any) -> None:
        self._keys = {**ids, **keys} if ids else keys

    def __enter__(self) -> None:
        outer = THREAD_LOCAL_KEYS.get()
        given = {name: value for name, value in self._keys.items() if value is not None}
        self._token = THREAD_LOCAL_KEYS.set({**outer, **given})

    def __exit__(self, *_: object) -> None:
        THREAD_LOCAL_KEYS.reset(self._token)


def note(**keys: Any) -> None:
    """Add keys to every log line until the current context ends. Keys with the value None are omitted."""
    given = {name: value for name, value in keys.items() if value is not None}
    THREAD_LOCAL_KEYS.set({**THREAD_LOCAL_KEYS.get(), **given})


def carried[**P, T](work: Callable[P, T]) -> Callable[P, T]:
    """Return a function that runs with the current keys of log lines when another thread calls it."""
    here = copy_context()

    def working(*args: P.args, **kwargs: P.kwargs) -> T:
        # Two threads cannot run in one context, so each call gets a copy.
        return here.copy().run(work, *args, **kwargs)

    return working
