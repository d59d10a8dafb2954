"""The one parser of YAML documents."""

from typing import Any


def parse_yaml(text: str) -> Any:
    """Return the YAML document in a text. Raises yaml.YAMLError if it has none."""
    # Imported here, because functions that parse nothing would import it at each cold start.
    import yaml

    # The C parser takes a tenth of the time, which is part of each cold start. Not every build of PyYAML has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader
