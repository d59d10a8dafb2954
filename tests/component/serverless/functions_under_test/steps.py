"""Two functions: one records its Kafka records, and hangs until a file exists; the other answers HTTP."""

import base64
import json
import os
import time
from pathlib import Path
from typing import Any


def consume(event: dict[str, Any], context: Any) -> dict[str, Any]:
    folder = Path(os.environ["NOTES"])
    failures = []
    for partition, records in event["records"].items():
        for record in records:
            value = base64.b64decode(record["value"]).decode()
            if value.startswith("hang") and not (folder / "go").exists():
                (folder / "hanging").write_text(str(os.getpid()))
                time.sleep(3600)
            if value == "bad":
                failures.append({"itemIdentifier": {"partition": partition, "offset": record["offset"]}})
                continue
            with (folder / "seen").open("a") as seen:
                seen.write(f"{os.environ['MASSCOMM_LANE']} {context.function_name} {value}\n")
    return {"batchItemFailures": failures}


def tick(event: dict[str, Any], context: Any) -> None:
    with (Path(os.environ["NOTES"]) / "ticks").open("a") as ticks:
        ticks.write(f"{event['detail-type']} {context.function_name}\n")


def respond(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return {"statusCode": 200, "body": json.dumps({"path": event["path"], "name": context.function_name})}
