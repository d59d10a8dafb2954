"""The durations in the tables of the guarantees and of the glossary are those of the code."""

import re

import pytest

from functions.delivery.quiet_hours_recheck import RECHECK_AFTER_S
from local.devstack.config import ROOT
from masscomm.domain import time_limits as times

UNITS = {"s": 1, "minutes": 60, "hours": 3_600, "days": 86_400}
# Page → sentences with the unit of a duration in the place of its number, and the duration in seconds.
SENTENCES = {
    "docs/internals/guarantees.md": [
        ("the lease: {s} s, calls end within it", times.LEASE_S),
        ("built more than {minutes} minutes ago, follows the users' data", RECHECK_AFTER_S),
        ("for a message requested more than {minutes} minutes ago", RECHECK_AFTER_S),
        ("at most {s} s behind the database", times.GENERATION_LAG_MS / 1_000),
        ("the same request gets the first response, for {hours} hours", times.IDEMPOTENCY_KEPT_S),
        ("a provider call ends within its {s} s", times.PROVIDER_CALL_S),
        ("a key is free again after {hours} hours", times.IDEMPOTENCY_KEPT_S),
        ("unless their requests are more than {hours} hours old", times.EXPANSION_HANDED_ON_S),
        ("8 attempts within {hours} hours", 3_600 * round(sum(times.WEBHOOK_RETRY_DELAYS_S) / 3_600)),
        ("is disabled after {days} days", times.WEBHOOK_DISABLED_AFTER_S),
        ("401, {s} s later at the latest", times.TOKEN_LEEWAY_S),
        ("replayed more than {days} days after", times.REPLAYED_WITHIN_S),
        ("the issuer's keys are read once in {s} s at most", times.TOKEN_KEYS_REFETCH_S),
        ("or {days} days before its record", times.TOO_OLD_S),
        ("keeps it for {s} s (`DENIED_SCHEMA_RETRY_S`)", times.DENIED_SCHEMA_RETRY_S),
        ("is registered within {hours} hour (`LATE_SCHEMA_S`)", times.LATE_SCHEMA_S),
        ("has seen an id denied for {s} s", times.DENIED_SCHEMA_RETRY_S),
        ("an event of the last {hours} hours is not produced again", times.EVENT_IDS_KEPT_S),
        ("its attempts from the stream, of {s} s at most", times.EVENT_ATTEMPT_S),
    ],
    "docs/internals/glossary.md": [("the exclusive right to process a record for {s} s", times.LEASE_S)],
    "docs/decisions/030-delivery-ledger.md": [
        ("The lease is {s} s, renewed by time", times.LEASE_S),
        ("only if the lease lasts at least {s} s more", times.PROVIDER_CALL_S),
    ],
}
# Durations in tables that have no name in the code: the range of offsets, the retention of a queue, and the time-outs
# of two requests together.
OTHERS = {"docs/internals/guarantees.md": ["14 hours", "14 days", "1.5 s"], "docs/internals/glossary.md": []}
DURATION = re.compile(r"\b\d[\d,.]* (?:s|minutes|hours|days)\b")


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", (ROOT / page).read_text())


def written(sentence: str, seconds: float) -> str:
    """Return a sentence with the duration in its unit."""
    return sentence.format_map({unit: f"{seconds / length:,g}" for unit, length in UNITS.items()})


@pytest.mark.parametrize("page", SENTENCES)
def test_durations_of_a_page_are_those_of_the_code(page: str) -> None:
    text = text_of(page)
    expected = [written(*each) for each in SENTENCES[page]]
    assert [sentence for sentence in expected if sentence not in text] == []


@pytest.mark.parametrize("page", OTHERS)
def test_each_duration_of_a_table_is_compared(page: str) -> None:
    rows = "\n".join(line for line in (ROOT / page).read_text().splitlines() if line.startswith("|"))
    for sentence in SENTENCES[page]:
        rows = rows.replace(written(*sentence), "")
    assert DURATION.findall(rows) == OTHERS[page]
