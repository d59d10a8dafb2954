"""A decorator that writes the logs, metrics and traces of each invocation of a function, for every trigger."""

import gc
import importlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

from aws_lambda_powertools import Logger

from masscomm.observability import logs, metrics, traces
from masscomm.observability.metric_names import COLD_STARTS, DURATION
from masscomm.untrusted import mask


class MaskedError(Exception):
    """Replaces an uncaught exception whose text contained personal data."""


_environments = iter([True])
# Python's own number is 2,000; a batch of 2,000 recipients makes ten times as many objects.
_NEW_OBJECTS_A_COLLECTION = 50_000
_AHEAD_OF_TIME = ("snap-start", "provisioned-concurrency")
# The modules that every Kafka-triggered function imports.
ON_KAFKA = ("confluent_kafka", "fastavro.schema", "urllib3")


def observed[C, R](
    logger: Logger, *, ahead: Iterable[str] = ()
) -> Callable[[Callable[[dict[str, Any], C], R]], Callable[[dict[str, Any], C], R]]:
    """Return a decorator for a handler: it adds the request id to log lines, and writes metrics and spans when the
    invocation ends.

    Args:
        logger: The logger of the function.
        ahead: Modules that the first invocation needs. If Lambda prepares environments before the first event
            (SnapStart, provisioned concurrency), they are imported immediately.
    """
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") in _AHEAD_OF_TIME:
        for name in ahead:
            importlib.import_module(name)

    def decorated(handler: Callable[[dict[str, Any], C], R]) -> Callable[[dict[str, Any], C], R]:
        @wraps(handler)
        def observing(event: dict[str, Any], context: C) -> R:
            began = time.perf_counter()
            is_first = next(_environments, False)
            if is_first:
                metrics.add(COLD_STARTS)
            request_id = getattr(context, "aws_request_id", None)
            try:
                with logs.about(request_id=request_id):
                    return handler(event, context)
            except Exception as error:
                # Lambda's runtime would log and return the text of an uncaught exception unchanged, so personal data is
                # masked here.
                if (text := mask(str(error))) == str(error):
                    raise
                raise MaskedError(f"{type(error).__name__}: {text}").with_traceback(error.__traceback__) from None
            finally:
                metrics.add(DURATION, (time.perf_counter() - began) * 1000)
                metrics.write(logger.service, **_given(request_id=request_id))
                try:
                    traces.write(logger.service)
                except OSError as error:
                    # If writing metrics or spans fails, the results of the invocation remain valid.
                    logger.warning("spans could not be exported", error=str(error))
                if is_first:
                    _collect_garbage_rarely()

        return observing

    return decorated


def _collect_garbage_rarely() -> None:
    """Keep the collector from the objects of imports and clients, and start it after more new objects: the thousands of
    records and recipients of a batch form no cycles.
    """
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS_A_COLLECTION)


def _given(**properties: Any) -> Mapping[str, Any]:
    return {name: value for name, value in properties.items() if value is not None}
