"""Marks the changelogs of rows at intervals."""

from aws_lambda_powertools import Logger

from masscomm.cdc.changelogs import Changelogs
from masscomm.clock import Clock
from masscomm.domain.time_limits import CHANGELOG_MARKED_S
from masscomm.errors import Retry


class MarkChangelogs:
    """Marks the changelogs at its first sweep, and at each one after the interval."""

    def __init__(self, *, changelogs: Changelogs, clock: Clock, logger: Logger) -> None:
        self._changelogs, self._clock, self._logger = changelogs, clock, logger
        self._due_ms = 0

    def sweep(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._due_ms:
            return
        try:
            self._changelogs.mark()
        except Retry as error:
            # No record waits for the marks, and the next sweep repeats them.
            self._logger.warning("the changelogs are not marked", error=str(error))
            return
        self._due_ms = now_ms + round(CHANGELOG_MARKED_S * 1000)
