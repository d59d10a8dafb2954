"""Runs one handler in a process of its own, from the checkout that PYTHONPATH names.

It reads the path of a file with events (a line of JSON each) from its standard input, calls the handler with each
event, and answers with the processor time of this process in seconds. It imports nothing but the handler, so that the
same file measures checkouts of any age.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


class Minute:
    """A Lambda context whose remaining time is always one minute."""

    aws_request_id = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # Log lines, metrics and spans are written to no file.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    handler: Any = importlib.import_module(sys.argv[1]).handler
    for line in sys.stdin:
        events = Path(line.strip()).read_text().splitlines()
        began = time.process_time()
        failed = sum(len(handler(json.loads(event), Minute())["batchItemFailures"]) for event in events)
        answers.write(f"{json.dumps({'seconds': time.process_time() - began, 'failed': failed})}\n")


if __name__ == "__main__":
    main()
