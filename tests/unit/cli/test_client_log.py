"""Clients of a command do not log to the terminal."""

import subprocess
import sys
from pathlib import Path

# The command connects to port 1, which has no listener.
COMMAND = """
import logging, sys
from pathlib import Path
from confluent_kafka import Producer
from cli.client_log import KAFKA_LOGGER, clients_log_to
clients_log_to(Path(sys.argv[1]))
producer = Producer({"bootstrap.servers": "127.0.0.1:1", "broker.address.family": "v4"}, logger=KAFKA_LOGGER)
logging.getLogger("urllib3").warning("a library's warning")
while not producer.poll(0.1) and "127.0.0.1:1" not in Path(sys.argv[1]).read_text():
    pass
print("result")
"""


def test_client_lines_go_to_the_file_not_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "clients.log"
    done = subprocess.run([sys.executable, "-c", COMMAND, str(log)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "result\n", "")
    assert "a library's warning" in log.read_text()
    assert "127.0.0.1:1" in log.read_text()
