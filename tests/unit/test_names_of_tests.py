"""A test is named test_<condition>_<result>, in at most 60 characters and without the words that EXCLUDED lists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_LENGTH = 60
EXCLUDED = re.compile(
    r"_(whoever|who|whom|whose|what|whatever|none|(some|any|every|no)body(s)?|tells?|told|telling|said|says"
    r"|beside|aside|asked|is_taken|comes?_again|goes_on)(?=_|$)"
)


def test_names_of_tests_are_short_and_plain() -> None:
    found = [
        (file.relative_to(ROOT), name)
        for file in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
        if len(name) > MAX_LENGTH or EXCLUDED.search(name)
    ]
    assert found == []
