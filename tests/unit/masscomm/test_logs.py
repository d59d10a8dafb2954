"""Each log line carries the keys of its own record."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from masscomm.chain.batch import Batch, BatchDriver, Item
from masscomm.domain.records import SendRequested
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from masscomm.observability import logs
from tests.support.harness.chain import Chain, Context, entry, event, failed_offsets, send
from tests.support.harness.relay import Relay, relay


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that returns the log lines since its last call."""
    capsys.readouterr()
    return lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" not in line]


def test_log_keys_end_with_their_block(lines: Any) -> None:
    logger = logs.logger("test_logs_blocks")
    with logs.about({"send_id": "outer"}, club_id=1):
        with logs.about(record_id="inner", channel=None):
            logs.note(position="t-0@1")
            logger.info("inside")
        logger.info("between")
    logger.info("after")
    inside, between, after = lines()
    assert {name: inside[name] for name in ("send_id", "club_id", "record_id", "position")} == {
        "send_id": "outer",
        "club_id": 1,
        "record_id": "inner",
        "position": "t-0@1",
    }
    assert "channel" not in inside
    assert (between["send_id"], "record_id" in between, "position" in between) == ("outer", False, False)
    assert not {"send_id", "club_id", "record_id"} & after.keys()


def test_thread_has_only_the_log_keys_carried_into_it(lines: Any) -> None:
    logger = logs.logger("test_logs_threads")
    with ThreadPoolExecutor(1) as pool, logs.about(send_id="a"):
        pool.submit(logs.carried(logger.info), "carried").result()
        pool.submit(logger.info, "not carried").result()
    carried, not_carried = lines()
    assert carried["send_id"] == "a"
    assert "send_id" not in not_carried


def _driver(chain: Chain) -> BatchDriver:
    return BatchDriver(
        function="under_test",
        codec=chain.codec,
        producer=chain.producer,
        logger=logs.logger("test_logs_driver"),
    )


def test_each_record_is_logged_with_its_own_ids(lines: Any) -> None:
    chain, inner = Chain(), logs.logger("test_logs_use_case")
    fates = {1: Retry("down"), 2: DeadLetter("invalid", "bad"), 3: KeyError("a fault")}

    def work(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        inner.info("at work", offset=item.record.offset)
        if item.record.offset in fates:
            raise fates[item.record.offset]
        relay(batch, item)

    entries = [
        chain.encoded(send([place], send_id=f"send-{place}", club_id=place), topics.SEND_MONOLITH, offset=place)
        for place in range(5)
    ]
    bad = entry(b"\0", topic=topics.SEND_MONOLITH, offset=9)
    assert failed_offsets(_driver(chain).run(event(*entries, bad), Context(chain.clock), Relay(work=work))) == [1, 3]
    logged = lines()
    assert len(logged) == 9
    for line in logged:
        offset = int(line["position"].partition("@")[2])
        assert line.get("offset", offset) == offset
        whose = (f"send-{offset}", offset) if offset < 5 else (None, None)
        assert (line.get("send_id"), line.get("club_id")) == whose
        assert ("trace_id" in line) is (offset < 5)
    by_message = sorted((line["message"], line["position"][-1]) for line in logged)
    assert by_message == [
        *(("at work", str(place)) for place in range(5)),
        ("dead letter", "2"),
        ("dead letter", "9"),
        ("record is redelivered", "1"),
        ("record is redelivered", "3"),
    ]


@pytest.mark.parametrize(
    "text", ['x\n{"level":"INFO","message":"forged"}', "a\rb", "\x1b[2J\x9b", "a\u2028b\u202ec\x85", "\ud800"]
)
def test_text_cannot_imitate_another_log_line(capsys: pytest.CaptureFixture[str], text: str) -> None:
    capsys.readouterr()
    logs.logger("test_logs_lines").warning("said", error=text)
    written = capsys.readouterr().out
    assert len(written.splitlines()) == 1
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", written)
    assert json.loads(written)["error"] == text
