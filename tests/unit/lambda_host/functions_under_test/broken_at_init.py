"""A function whose module cannot be imported; it records each attempt in the file IMPORTS."""

import os
from pathlib import Path

with Path(os.environ["IMPORTS"]).open("a") as imports:
    imports.write("import\n")
raise RuntimeError("no configuration")
