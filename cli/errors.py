"""The error of a command that fails."""


class CommandError(Exception):
    """A command fails; its message is shown to the user."""
