import re
from pathlib import Path

from hypothesis import HealthCheck, settings

from local.devstack.config import ROOT


def test_profile_has_no_time_limit_and_bounded_examples() -> None:
    profile = settings()
    assert profile.deadline is None
    assert HealthCheck.too_slow in profile.suppress_health_check
    assert profile.max_examples == 100


def test_no_test_sets_a_time_limit_of_its_own() -> None:
    pattern = re.compile(r"@settings\([^)]*\bdeadline\b", re.DOTALL)
    files = (path for path in Path(ROOT, "tests").rglob("*.py"))
    assert [str(path) for path in files if pattern.search(path.read_text())] == []
