"""Errors named by what the caller should do.

    MasscommError
      Retry        a dependency is down, slow or behind: the same record again, later
      DeadLetter   this record is bad and always will be: put it aside with its reason, go on with the others
      Stop         the installation is wrong (a missing setting, a refused login): nothing can go on

Anything else that escapes is a fault in the code. It counts as Retry, because the record may be good.
"""


class MasscommError(Exception):
    """The root of the tree above."""


class Retry(MasscommError):
    """The same record again, later. The message says which dependency and what it answered."""


class DeadLetter(MasscommError):
    """This record is bad.

    reason: one word of the dead-letter vocabulary, e.g. `undecodable`; the message is for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class OtherRecipients(DeadLetter):
    """Something is recorded of other recipients under this record's id: a producer has used a chunk's index twice."""

    def __init__(self) -> None:
        super().__init__("invalid", "a record of other recipients was decided about under this record's id")


class Stop(MasscommError):
    """Misconfigured: an operator must act."""
