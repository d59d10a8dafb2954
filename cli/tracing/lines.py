"""Finds log entries of the functions about a send: spans, and lines with its id."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from cli.tracing.steps import Asked, Kind, Step


def steps(folder: Path, asked: Asked, trace_ids: set[str], positions: set[str]) -> Iterator[Step]:
    """Return the steps in every function's log that concern the send.

    `positions` are the source positions of the send's records, because a span names a record and no notification.
    """
    needles = (asked.send_id, *trace_ids)
    for path in sorted(folder.rglob("*.log")):
        with path.open(errors="replace") as file:
            for text in file:
                if text.startswith("{") and any(needle in text for needle in needles):
                    try:
                        document = json.loads(text)
                    except ValueError:
                        continue  # The line is incomplete after a crash, or was written by a library.
                    if "resourceSpans" in document:
                        yield from _spans(document, trace_ids, positions)
                    elif document.get("send_id") == asked.send_id and "message" in document:
                        step = _line(document, positions)
                        if step is not None:
                            yield step


def _spans(document: Mapping[str, Any], trace_ids: set[str], positions: set[str]) -> Iterator[Step]:
    for resource in document["resourceSpans"]:
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            if span["traceId"] not in trace_ids:
                continue
            attributes = {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
            source_position = attributes.get("position", "")
            if source_position and source_position not in positions:
                continue
            began, ended = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
            error = span["status"].get("message")
            yield Step(
                at_ms=began // 1_000_000,
                kind=Kind.SPAN,
                where=source_position,
                function=span["name"],
                description=f"ran for {(ended - began) / 1e6:.1f} ms{f': {error}' if error else ''}",
                details={
                    "trace_id": span["traceId"],
                    "span_id": span["spanId"],
                    "parent_span_id": span.get("parentSpanId"),
                    **attributes,
                },
            )


def _line(document: Mapping[str, Any], positions: set[str]) -> Step | None:
    source_position = document.get("position", "")
    if source_position and source_position not in positions:
        return None
    error = document.get("error")
    return Step(
        at_ms=round(datetime.fromisoformat(document["timestamp"]).timestamp() * 1000),
        kind=Kind.LINE,
        where=source_position,
        function=document["service"],
        description=f"{document['level'].lower()}: {document['message']}{f': {error}' if error else ''}",
        details={name: document[name] for name in ("request_id", "record_id", "trace_id") if name in document},
    )
