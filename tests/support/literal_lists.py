"""Find collections in product code that repeat the entries of a list defined elsewhere."""

import ast
from collections.abc import Iterable

from local.devstack.config import ROOT

PRODUCT = ("masscomm", "functions", "spark_metrics", "infra", "cli", "ops/provisioning", "ops/erasure", "local")


def modules_listing(names: Iterable[str]) -> set[str]:
    """Return the modules with a literal tuple, list, set or dictionary that contains each of the names."""
    wanted = set(names)
    return {
        path.relative_to(ROOT).as_posix()
        for package in PRODUCT
        for path in (ROOT / package).rglob("*.py")
        if "node_modules" not in path.parts and _lists(path.read_text(), wanted)
    }


def _lists(source: str, names: set[str]) -> bool:
    # Only a module that contains all names is parsed, because parsing is slow.
    return all(name in source for name in names) and any(
        {each.value for each in _members(node) if isinstance(each, ast.Constant)} >= names
        for node in ast.walk(ast.parse(source))
    )


def _members(node: ast.AST) -> list[ast.expr | None]:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return list(node.elts)
    return list(node.keys) if isinstance(node, ast.Dict) else []
