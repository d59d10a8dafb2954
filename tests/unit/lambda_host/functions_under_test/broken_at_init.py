"""A function whose module cannot be imported; it notes each attempt in the file IMPORTS names."""

import os
from pathlib import Path

with Path(os.environ["IMPORTS"]).open("a") as imports:
    imports.write("import\n")
raise RuntimeError("no configuration")
