"""The error of a command that cannot do what it was called for."""


class CommandError(Exception):
    """A command cannot do what it was called for; the message is shown to the user."""
