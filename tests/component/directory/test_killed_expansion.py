"""An expansion whose process is killed, with the real OpenSearch and DynamoDB."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from local.devstack.config import ROOT, StackConfig
from local.devstack.service import AWS_CREDENTIALS
from masscomm.domain.records import AudienceRequested, SendRequested
from masscomm.domain.users import User
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, SEND_ID, Chain
from tests.support.servers.directory_tables import OpenSearchTables
from tests.support.servers.dynamodb_table import dynamodb, new_table

STAYING = range(10, 310)
# 30 chunks of ten users are recorded and produced: the process is killed after these numbers of printed lines.
KILLED_AFTER = (1, 9, 17, 8, 12)


def user(user_id: int, club_id: int = 7) -> User:
    return User(user_id=user_id, club_id=club_id, locale="de")


def record() -> bytes:
    send = SendRequested(type="news", club_id=7, timestamp=NOW, to_users=[], send_id=SEND_ID)
    request = AudienceRequested(
        send_id=SEND_ID,
        club_id=7,
        timestamp=NOW,
        chunk_size=10,
        audience=json.dumps({"where": {"field": "locale", "is": "de"}}),
        send=json.dumps(send.to_avro()),
    )
    return Chain().codec.encode(topics.AUDIENCE, "AudienceRequested", request.to_avro())


def run(
    arguments: list[str], environment: dict[str, str], killed_after: int | None
) -> tuple[int, list[dict[str, Any]]]:
    """Run the process, and kill it after a number of lines. Return its status, and the chunks that it produced."""
    command = [sys.executable, "-m", "tests.support.harness.expansion_process", *arguments]
    lines = 0
    chunks = []
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(('{"index"', "{}")):
                lines += 1
                chunks += [json.loads(line)] if "index" in line else []
                if lines == killed_after:
                    process.send_signal(signal.SIGKILL)
    return process.returncode, chunks


def test_a_killed_expansion_is_completed_by_the_next(
    tables: OpenSearchTables, localstack: StackConfig, tmp_path: Path
) -> None:
    """While users join and leave, every chunk has one content, and no user is in two."""
    table = new_table(dynamodb(localstack), "sends")
    tables.put(*map(user, STAYING), *(user(user_id, 8) for user_id in range(1, 10)))
    tables.caught_up_to(NOW + 1)
    file = tmp_path / "record"
    file.write_bytes(record())
    arguments = [tables.client._url, table, str(tables.progress.lsn), str(file)]
    environment = {**os.environ, **AWS_CREDENTIALS, "AWS_ENDPOINT_URL": localstack.aws_url}
    found: dict[int, list[int]] = {}
    counts = set()
    for number, killed_after in enumerate((*KILLED_AFTER, None)):
        status, chunks = run(arguments, environment, killed_after)
        assert status == (0 if killed_after is None else -signal.SIGKILL)
        for chunk in chunks:
            assert found.setdefault(chunk["index"], chunk["users"]) == chunk["users"]
            counts.add(chunk["of"])
        tables.put(user(number + 1), user(400 + number))
        tables.remove(user(400 + number - 1))
    users = [user_id for each in found.values() for user_id in each]
    assert len(users) == len(set(users))
    assert set(STAYING) <= set(users) <= {*STAYING, *range(1, 7), *range(400, 406)}
    assert sorted(found) == list(range(len(found)))
    assert counts == {len(found)}
