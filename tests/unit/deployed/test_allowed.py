"""The allowlist has a reason for each property that LocalStack ignores."""

from pathlib import Path

import pytest

from local.devstack.deployed.allowed import read_allowed


def test_every_line_gives_a_reason() -> None:
    for each in read_allowed():
        assert each.type.startswith(("AWS::", "Custom::"))
        assert each.reason == "as above" or len(each.reason) > 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("api\tAWS::WAFv2::WebACL\t\n", "line 1: not a stack, a type and a reason"),
        ("api\tAWS::WAFv2::WebACL\n", "line 1"),
        ("api\tA\tbecause\nnetwork\tA\tbecause\napi\tA\tonce more\n", "occur twice"),
    ],
)
def test_line_without_reason_or_repeated_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "allowed.tsv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_allowed(file)
