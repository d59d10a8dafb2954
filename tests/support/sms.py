"""The settings of SMS for tests: a file in the place of schemas/sms.yaml."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from masscomm.domain.sms_settings import SMS_VARIABLE, sms_table

CLUB = 7
# The number to which recipients answer.
ANSWERED_AT = "+4915799912345"
SENDER = {"identity": "Club", "two_way": True, "numbers": [ANSWERED_AT], "segments_per_s": 10}
# What a club may spend in a day.
LIMITS = {"daily_usd": 10.0, "critical_reserve_usd": 2.0}
SETTINGS: dict[str, Any] = {
    "tenants": {CLUB: {"region": "DE", "countries": ["AT", "DE"], "senders": {"default": SENDER}, **LIMITS}},
    "prices": {"as_of": date(2026, 11, 1), "usd_a_segment": {"AT": 0.1, "DE": 0.05}},
}


@contextmanager
def sms_settings(settings: dict[str, Any] = SETTINGS) -> Iterator[None]:
    """Use these settings for SMS while the context lasts."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        file = Path(folder) / "sms.yaml"
        file.write_text(yaml.safe_dump(settings))
        patched.setenv(SMS_VARIABLE, str(file))
        sms_table.cache_clear()
        try:
            yield
        finally:
            sms_table.cache_clear()
