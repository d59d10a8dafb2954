"""Shared test code is in tests/support; test modules and conftests are imported by pytest alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _imported(root: Path, file: Path) -> Iterator[Path]:
    """The modules and packages of tests/ that a file imports, as paths below root without a suffix."""
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(level=0, module=str(module)):
                inner = [f"{module}.{alias.name}" for alias in node.names]
                names = [name if _is_module(root, name) else module for name in inner]
        yield from {Path(*name.split(".")) for name in names if name.split(".")[0] == "tests"}


def _is_module(root: Path, name: str) -> bool:
    path = root.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def misplaced(root: Path) -> set[str]:
    """Return a line for each import that the layout forbids."""
    found: set[str] = set()
    importers: dict[Path, set[Path]] = {}
    for folder in (root / "tests", root / "benchmarks"):
        for file in folder.rglob("*.py"):
            for module in _imported(root, file):
                importers.setdefault(module, set()).add(file.relative_to(root))
    for module, files in importers.items():
        for file in files:
            if module.name.startswith("test_") or module.name == "conftest":
                found.add(f"{file} imports {module}")
            elif Path("tests/support") not in (module, *module.parents) and module.parent != file.parent:
                found.add(f"{file} imports {module} of another folder")
        if module.parts[1] in ("unit", "component") and len(files) > 1:
            found.add(f"{module} has {len(files)} importers")
    return found


def test_shared_test_code_is_in_support() -> None:
    assert misplaced(ROOT) == set()


@pytest.mark.parametrize(
    ("module", "line", "complaint"),
    [
        ("tests/unit/test_b.py", "from tests.unit.test_b import B", "tests/unit/test_a.py imports tests/unit/test_b"),
        ("tests/unit/conftest.py", "import tests.unit.conftest", "tests/unit/test_a.py imports tests/unit/conftest"),
        ("tests/faults/bench.py", "from tests.faults import bench", "imports tests/faults/bench of another folder"),
        ("tests/unit/helper.py", "from tests.unit import helper", "tests/unit/helper has 2 importers"),
    ],
)
def test_forbidden_import_is_named(tmp_path: Path, module: str, line: str, complaint: str) -> None:
    for name, text in ((module, ""), ("tests/unit/test_a.py", line), ("tests/unit/test_c.py", line)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert any(complaint in each for each in misplaced(tmp_path))
