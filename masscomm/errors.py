"""Errors, named by the action of the caller.

    MasscommError
      Retry        a temporary fault: a dependency is down, slow or behind; the record is retried later
      DeadLetter   a permanent fault of the record: it is dead-lettered with its reason, the others are processed
      Stop         a fault of the installation (a missing setting, a refused login): no record can be processed

Any other exception is a fault in the code. It counts as Retry, because the record may be valid.
"""


class MasscommError(Exception):
    """The base class of the errors above."""


class Retry(MasscommError):
    """The record is retried later. The message names the dependency and contains its answer."""


class DeadLetter(MasscommError):
    """The record is dead-lettered.

    reason: one word of the dead-letter vocabulary, e.g. `undecodable`; message: for an operator.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class OtherRecipients(DeadLetter):
    """The record's id has recorded decisions about other recipients: a producer has used a chunk's index twice."""

    def __init__(self) -> None:
        super().__init__("invalid", "a record of other recipients was decided about under this record's id")


class Stop(MasscommError):
    """The installation is misconfigured: an operator must act."""
