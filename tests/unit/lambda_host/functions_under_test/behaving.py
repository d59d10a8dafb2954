"""A function whose event chooses its behaviour, one key for each."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def handler(event: Any, context: Any) -> Any:
    match event:
        case {"raise": message}:
            raise ValueError(message)
        case {"exit": status}:
            os._exit(status)
        case {"leave": status}:
            sys.exit(status)
        case {"hang": started}:
            Path(started).write_text(str(os.getpid()))
            while True:
                time.sleep(3600)
        case {"until": release, "started": started}:
            Path(started).write_text(str(os.getpid()))
            while not Path(release).exists():
                time.sleep(0.005)
            return {"pid": os.getpid()}
        case {"spawn": started}:
            child = os.fork()
            if child == 0:
                time.sleep(3600)
            Path(started).write_text(json.dumps([os.getpid(), child]))
            while True:
                time.sleep(3600)
        case {"answer_bytes": size}:
            return "x" * (size - 2)
        case {"context": True}:
            return {
                "request_id": context.aws_request_id,
                "arn": context.invoked_function_arn,
                "name": context.function_name,
                "memory": context.memory_limit_in_mb,
                "remaining_ms": context.get_remaining_time_in_millis(),
                "environment": dict(os.environ),
                "cwd": os.getcwd(),
                "pid": os.getpid(),
            }
        case {"print": text}:
            print(text)  # noqa: T201 - a function under test that prints
    return event
