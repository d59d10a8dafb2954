"""The SQL statements of the job, one a file."""

from functools import cache
from importlib.resources import files


def read_sql(name: str, **names: object) -> bytes:
    """Return the statement in the file `name`.sql, as psycopg accepts it.

    Args:
        names: Identifiers and numbers that replace {name} in the statement.
    """
    text = _text(name)
    for placeholder, value in names.items():
        text = text.replace(f"{{{placeholder}}}", str(value))
    return text.encode()


@cache
def _text(name: str) -> str:
    return files(__name__).joinpath(f"{name}.sql").read_text()
