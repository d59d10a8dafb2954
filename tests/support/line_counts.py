"""Compare the numbers of non-blank lines that were written by hand in two commits.

python -m tests.support.line_counts 5388ae68 HEAD
"""

import subprocess
import sys
from collections import Counter

CODE = ("*.py", "*.ts", "*.vue", "*.css", "*.html", "*.sql", "*.java", "*.sh", "Makefile")
GENERATED = "Generated: python -m"
# The folders of the generators.
GENERATORS = ("openapi", "ops/openapi")
TESTS = ("tests/", ".test.ts")


def line_counts(commit: str) -> Counter[str]:
    """Return the numbers of lines by kind (product, tests) and by top folder."""
    generators = [f":(exclude){folder}" for folder in GENERATORS]
    generated = {path for path, _ in _grep(GENERATED, commit, *CODE, *generators)}
    counts: Counter[str] = Counter()
    for path, number in _grep("[^[:space:]]", commit, *CODE):
        if path in generated:
            continue
        kind = "tests" if any(part in path for part in TESTS) else "product"
        counts[f"{kind:9}"] += int(number)
        counts[f"{kind:9} {path.partition('/')[0]}"] += int(number)
    return counts


def _grep(pattern: str, commit: str, *files: str) -> list[tuple[str, str]]:
    """Return the path and the number of matching lines of each file that has some."""
    command = ["git", "grep", "-I", "-z", "-c", pattern, commit, "--", *files]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = (line.removeprefix(f"{commit}:").partition("\0") for line in listed.splitlines())
    return [(path, number) for path, _, number in rows]


def main(before: str, after: str) -> None:
    old, new = line_counts(before), line_counts(after)
    for name in sorted(old | new):
        sys.stdout.write(f"{name:30} {old[name]:8,} {new[name]:8,} {new[name] - old[name]:+8,}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
