"""Compare the numbers of non-blank lines that were written by hand in two commits.

python -m tests.support.line_counts 5388ae68 HEAD
"""

import subprocess
import sys
from collections import Counter

CODE = ("*.py", "*.ts", "*.vue", "*.css", "*.html", "*.sql", "*.java", "*.sh", "Makefile")
GENERATED = ("*client/types.py", "*client/synchronous.py", "sdk/python/types.py", "sdk/python/synchronous.py")
TESTS = ("tests/", ".test.ts")


def line_counts(commit: str) -> Counter[str]:
    """Return the numbers of lines by kind (product, tests) and by top folder."""
    left_out = [f":(exclude){pattern}" for pattern in GENERATED]
    command = ["git", "grep", "-I", "-z", "-c", "[^[:space:]]", commit, "--", *CODE, *left_out]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    counts: Counter[str] = Counter()
    for line in listed.splitlines():
        path, number = line.removeprefix(f"{commit}:").split("\0")
        kind = "tests" if any(part in path for part in TESTS) else "product"
        counts[f"{kind:9}"] += int(number)
        counts[f"{kind:9} {path.partition('/')[0]}"] += int(number)
    return counts


def main(before: str, after: str) -> None:
    old, new = line_counts(before), line_counts(after)
    for name in sorted(old | new):
        sys.stdout.write(f"{name:30} {old[name]:8,} {new[name]:8,} {new[name] - old[name]:+8,}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
