"""The one parser of YAML documents."""

from pathlib import Path
from typing import Any

from masscomm.errors import Stop


def parse_yaml(text: str) -> Any:
    """Return the YAML document in a text. Raises yaml.YAMLError if it has none."""
    # Imported here, because functions that parse nothing would import it at each cold start.
    import yaml

    # The C parser takes a tenth of the time, which is part of each cold start. Not every build of PyYAML has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader


def read_yaml(path: Path, name: str, error_type: type[Stop]) -> Any:
    """Return the YAML document in a file. Raises an error of the given type, which gives the file this name, if it has
    none.
    """
    import yaml

    try:
        return parse_yaml(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise error_type(f"{name} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise error_type(f"{name} is not YAML: {error}") from error
