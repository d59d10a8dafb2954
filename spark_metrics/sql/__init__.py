"""The SQL statements of the job, one a file."""

from importlib.resources import files


def read_sql(name: str, **names: object) -> bytes:
    """Return the statement in the file `name`.sql, as psycopg accepts it.

    Args:
        names: Identifiers and numbers that replace {name} in the statement.
    """
    text = files(__name__).joinpath(f"{name}.sql").read_text()
    for placeholder, value in names.items():
        text = text.replace(f"{{{placeholder}}}", str(value))
    return text.encode()
