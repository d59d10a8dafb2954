"""Runs a command of the command line in this process."""

from typer import Typer
from typer.testing import CliRunner


def output_of(app: Typer, *arguments: str) -> str:
    """Return the output of a command that ends well."""
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output
