"""Builds the package of every function and prints the sizes."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from infra.packaging.build import TARGET, build, install
from infra.packaging.contents import ROOT, all_contents, library_contents, runtime_distributions


def main() -> None:
    arguments = argparse.ArgumentParser(description="Build a zip for each function with the modules that it imports.")
    arguments.add_argument("--out", type=Path, default=ROOT / "infra" / "package")
    arguments.add_argument("--platform", default=TARGET, help="target platform, as uv names it (default: %(default)s)")
    arguments.add_argument(
        "--runtime", type=Path, metavar="FOLDER", help="also install the packages of Lambda's runtime here"
    )
    arguments.add_argument("--only-runtime", action="store_true", help="with --runtime: build no packages")
    chosen = arguments.parse_args()
    if chosen.runtime:
        install(runtime_distributions(), chosen.runtime, platform=chosen.platform)
    if chosen.only_runtime:
        return
    contents = {each.name: each for each in (*all_contents(), *library_contents())}
    table = Table("package", "zip, MB", "unpacked, MB", "files", "distributions")
    for each in build(list(contents.values()), chosen.out, platform=chosen.platform):
        inside = contents[each.name]
        table.add_row(
            each.name,
            f"{each.zipped_bytes / 1e6:.2f}",
            f"{each.bytes / 1e6:.1f}",
            f"{each.files:,}",
            f"{len(inside.distributions)}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
