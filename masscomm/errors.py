"""Errors, named by the action of the caller.

    MasscommError
      Retry        a temporary fault: a dependency is down, slow or behind; the record is retried later
        Unlisted   an answer about one record that is in no table; it is retried, for a limited time
      DeadLetter   a permanent fault of the record: it is dead-lettered with its reason, the others are processed
      Stop         a fault of the installation (a missing setting, a refused login): no record can be processed

Any other exception is a fault in the code. It counts as Unlisted, because the record may be valid.
"""


class MasscommError(Exception):
    """The base class of the errors in this module."""


class Retry(MasscommError):
    """A temporary fault: the record is retried later. The message names the dependency and contains its response."""


class Unlisted(Retry):
    """A dependency's answer about this record alone that is in no table (docs/internals/permanent-answers.md). It is
    retried; a function whose attempts have no end dead-letters it after a time (masscomm.chain.unlisted_errors).
    """


class DeadLetter(MasscommError):
    """A permanent fault of the record: it is dead-lettered.

    Args:
        reason: One word of the vocabulary of dead-letter reasons, such as `undecodable`.
        message: The explanation for an operator.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class OtherRecipients(DeadLetter):
    """Decisions for other recipients are already recorded under the record's id: a producer has used the same chunk
    index for two records of a send.
    """

    def __init__(self) -> None:
        super().__init__("invalid", "a record of other recipients was decided about under this record's id")


class OtherContent(DeadLetter):
    """Decisions for other content are already recorded under the record's id; its recipients have the outcomes of
    that content.
    """

    def __init__(self) -> None:
        super().__init__("invalid", "the send_id has another content, which was accepted first for the same recipients")


class Stop(MasscommError):
    """The installation is misconfigured; an operator must act."""
