"""Zips a folder reproducibly, so that the same files result in the same bytes: `python -m infra.job_archive FOLDER
ARCHIVE`.
"""

import sys
import zipfile
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)
_IGNORED = ("__pycache__", "bin", "RECORD", "direct_url.json")


def write_archive(folder: Path, archive: Path) -> None:
    """Write every file of the folder in sorted order, without times and owners."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and not set(name.parts) & set(_IGNORED):
                entry = zipfile.ZipInfo(name.as_posix(), _EPOCH)
                entry.external_attr = 0o644 << 16
                made.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]), Path(sys.argv[2]))
