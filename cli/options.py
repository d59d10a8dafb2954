"""Command-line options that several commands share."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

ClubOption = Annotated[int, typer.Option("--club", help="The club (tenant).")]
JsonOption = Annotated[bool, typer.Option("--json", help="For programs, a JSON object a line.")]
FollowsOption = Annotated[
    str | None, typer.Option("--follows", metavar="KIND:OBJECT", help="Only users who follow this, such as team:42.")
]

EnvironmentsOption = Annotated[
    Path | None,
    typer.Option(
        "--environments",
        metavar="FOLDER",
        envvar="MASSCOMM_ENVIRONMENTS",
        show_envvar=False,
        exists=True,
        file_okay=False,
        resolve_path=True,
        help="The folder with a YAML file for each deployed environment. Default: MASSCOMM_ENVIRONMENTS.",
    ),
]


def given(**made_by: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces parameters of a command by the options of other functions, which compute the
    parameters' values.

    Args:
        made_by: For each replaced parameter, the function that returns its value. The function's own options appear on
            the command line instead of the parameter.

    Raises:
        TypeError: Two of the options have the same name.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = [each for name, each in inspect.signature(command).parameters.items() if name not in made_by]
        theirs = {name: list(inspect.signature(make).parameters.values()) for name, make in made_by.items()}
        asked = [*own, *(each for parameters in theirs.values() for each in parameters)]
        if len({each.name for each in asked}) < len(asked):
            raise TypeError(f"{command.__name__}: two options have one name")

        @wraps(command)
        def run(**values: Any) -> None:
            for name, make in made_by.items():
                values[name] = make(**{each.name: values.pop(each.name) for each in theirs[name]})
            command(**values)

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in asked]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
        del run.__wrapped__  # typer would read the signature of __wrapped__, which lacks the options.
        return run

    return decorated
