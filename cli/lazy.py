"""Commands whose modules are imported when they are called.

`masscomm --help` and completion need their names and first sentences only: with every module, they took half a second
of processor time.
"""

from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from cli.pages import epilogue


class LazyCommand(TyperCommand):
    """A command or group that is the `app` of a module.

    Args:
        name: The name on the command line.
        module: The module, which has a Typer application named `app`.
        help: What `masscomm --help` says of it.
    """

    def __init__(self, name: str, module: str, help: str) -> None:
        super().__init__(name, help=help, rich_markup_mode=None)
        self._module = module

    @cached_property
    def loaded(self) -> Any:
        """Return the command itself, of type TyperCommand or TyperGroup."""
        application = import_module(self._module).app
        application.rich_markup_mode = None
        command = typer.main.get_command(application)
        command.name = self.name
        if isinstance(command, TyperGroup):
            command.help = self.help
        _end_with(epilogue(self.name), command)
        return command

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Return the context of the command itself: typer invokes, completes and describes a context's command."""
        return self.loaded.make_context(*arguments, **options)


def _end_with(text: str, command: Any) -> None:
    """Set the end of a command's help, and of the commands of a group."""
    command.epilog = text
    for each in getattr(command, "commands", {}).values():
        _end_with(text, each)
