"""Remove one guard at a time in a copy of the tree and check that a test fails: `make faults-mutants`.

The cell of a mutant runs alone on the mutated functions (one stack serves all mutants). If it has no cell, the
tests marked `kills(guard="...")` run on the mutated tree. out/faults-mutants.json has a row for each mutant. Exit
status 1 if a mutant survives or does not apply.

    --only TEXT   mutants whose guard, rule or cell contains the text
    --part 2/5    the second fifth of the mutants
"""

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from cli.client_log import clients_log_to
from local.devstack.config import ROOT
from tests.faults.cells import CELLS
from tests.faults.guards import MUTANTS, Mutant
from tests.faults.mutation import DoesNotApply, find_guards, without_guard
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Cell
from tests.support.fault_stack.stack import FaultStack
from tests.support.until import until

# Further folders that the functions and the tests of a mutant need.
NOT_COPIED = {"docs", "infra", "out"}
OUT = ROOT / "out" / "faults-mutants.json"


def trees() -> list[Path]:
    """Return the folders of code that a mutant's copy has."""
    folders = (each for each in sorted(ROOT.iterdir()) if each.is_dir())
    return [each for each in folders if each.name not in NOT_COPIED and not each.name.startswith(".")]


def guarded_modules() -> dict[str, list[Path]]:
    """Return guard → modules of the product code, relative to the repository."""
    return {
        name: [path.relative_to(ROOT) for path in paths]
        for tree in trees()
        if tree.name != "tests"
        for name, paths in find_guards(tree).items()
    }


def killing_tests(root: Path) -> dict[str, list[Path]]:
    """Return guard → test modules with the mark `kills(guard="...")`."""
    found: dict[str, list[Path]] = {}
    for path in sorted((root / "tests").rglob("*.py")):
        if ".kills(" in (text := path.read_text()):
            for guard in _killed(ast.parse(text)):
                found.setdefault(guard, []).append(path)
    return found


def _killed(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "kills":
            yield from (str(ast.literal_eval(each.value)) for each in node.keywords if each.arg == "guard")


@contextmanager
def mutated(mutant: Mutant, module: Path) -> Iterator[Path]:
    """Copy the tree without the guard of a module. Raises DoesNotApply."""
    with tempfile.TemporaryDirectory(prefix="masscomm-mutant-") as folder:
        copy = Path(folder)
        for tree in trees():
            shutil.copytree(tree, copy / tree.name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for name in (".venv", ".devstack"):
            (copy / name).symlink_to(ROOT / name)
        path = copy / module
        path.write_text(without_guard(path.read_text(), mutant.guard, mutant.change))
        yield copy


def red_by_test(copy: Path, guard: str) -> str | None:
    """Run the guard's tests in the copy. Returns the first test that fails, or None."""
    options = ["--nightly", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", f'kills(guard="{guard}")']
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *_test_modules(copy, guard)],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    # An import error or a missing test does not prove that the guard is needed.
    return failed[0].removeprefix("FAILED ").split(" - ")[0] if done.returncode == 1 and failed else None


def _test_modules(copy: Path, guard: str) -> Iterator[str]:
    """Return the test modules that define the guard's tests or import a contract with them."""
    for path in killing_tests(copy).get(guard, []):
        if path.name.startswith("test_"):
            yield str(path.relative_to(copy))
        else:
            imported = re.compile(rf"\b{re.escape('.'.join(path.relative_to(copy).with_suffix('').parts))}\b")
            for test in sorted((copy / "tests").rglob("test_*.py")):
                if imported.search(test.read_text()):
                    yield str(test.relative_to(copy))


def red_by_cell(bench: Bench, copy: Path, *, cell: Cell, in_job: bool) -> str | None:
    """Run the cell on the mutated tree. Returns its failure, or None. in_job: whether the guard is in the Spark job."""
    bench.stack.use(copy)
    # The previous mutant's unfinished records may end in the same minutes as this cell's records.
    bench.by_minute, bench.timeout_s = in_job, cell.timeout_s
    result = bench.run(cell)
    if result.ok:
        return None
    # Finish this mutant's records with the guard in place, because they would make the next mutant's cell fail.
    bench.stack.use(ROOT)
    until("nothing is left of it", bench.at_rest, 120, every_s=0.2)
    return result.describe()[:150]


class _Report:
    """Report a mutant's result on the terminal and in out/faults-mutants.json."""

    def __init__(self) -> None:
        self.survivors = 0
        self._rows: list[dict[str, object]] = []

    def add(self, mutant: Mutant, module: Path, red: str | None, seconds: float) -> None:
        self.survivors += red is None
        self._rows.append(
            {
                "guard": mutant.guard,
                "rule": mutant.rule,
                "module": str(module),
                "cell": mutant.cell,
                "red": red,
                "seconds": round(seconds, 1),
                "ok": red is not None,
            }
        )
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text(json.dumps(self._rows, indent=2) + "\n")
        word = "SURVIVED" if red is None else "red"
        by = f"{mutant.cell}: {red}" if mutant.cell else red
        sys.stdout.write(f"{word:9} {seconds:5.0f} s  {mutant.guard}\n{'':20}{by}\n")
        sys.stdout.flush()


def run(mutants: Sequence[Mutant]) -> int:
    """Run the mutants. Returns the number of guards that were not shown to be needed."""
    report = _Report()
    modules = {name: paths[0] for name, paths in guarded_modules().items()}

    def show(mutant: Mutant, red_in: Callable[[Path], str | None]) -> None:
        began, red = time.monotonic(), None
        try:
            with mutated(mutant, modules[mutant.guard]) as copy:
                red = red_in(copy)
        except DoesNotApply as error:
            sys.stdout.write(f"{mutant.guard} does not apply: {error}\n")
        report.add(mutant, modules[mutant.guard], red, time.monotonic() - began)

    for mutant in mutants:
        if not mutant.cell:
            show(mutant, partial(red_by_test, guard=mutant.guard))
    by_cell = [(mutant, modules[mutant.guard].parts[0] == "spark_metrics") for mutant in mutants if mutant.cell]
    if by_cell:
        cells = {cell.name: cell for cell in CELLS}
        with (
            tempfile.TemporaryDirectory(prefix="masscomm-faults-") as folder,
            FaultStack(Path(folder)) as stack,
            Bench.on(stack) as bench,
        ):
            for mutant, in_job in sorted(by_cell, key=lambda each: not each[1]):
                show(mutant, partial(red_by_cell, bench, cell=cells[mutant.cell], in_job=in_job))
    return report.survivors


def main() -> int:
    parser = argparse.ArgumentParser(description="Show that every guard is needed.")
    parser.add_argument("--only", default="", help="mutants whose guard, rule or cell contains this text")
    parser.add_argument("--part", default="1/1", help="of those: the second of five parts is 2/5")
    arguments = parser.parse_args()
    clients_log_to(OUT.with_suffix(".clients.log"))
    chosen = [each for each in MUTANTS if any(arguments.only in text for text in (each.guard, each.rule, each.cell))]
    part, parts = map(int, arguments.part.split("/"))
    chosen = chosen[len(chosen) * (part - 1) // parts : len(chosen) * part // parts]
    survivors = run(chosen)
    sys.stdout.write(f"{len(chosen)} guards, {survivors} that nothing would miss\n")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    raise SystemExit(main())
