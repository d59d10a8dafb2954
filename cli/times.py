"""Times on the command line."""

import re
from datetime import UTC, datetime, time, timedelta
from typing import Annotated

import typer

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DAYS_AGO = {"today": 0, "yesterday": 1}
FORMS = "15m, 2h, 7d (ago), today, yesterday (from 0:00 UTC), or ISO 8601"

SinceOption = Annotated[str | None, typer.Option("--since", metavar="TIME", help=f"Since then: {FORMS}.")]


def moment(text: str, now: datetime) -> datetime:
    """Return a time in one of the FORMS; one in ISO 8601 without a zone is in UTC.

    Raises:
        typer.BadParameter: The text has none of the forms.
    """
    try:
        if text in _DAYS_AGO:
            return datetime.combine(now.date() - timedelta(days=_DAYS_AGO[text]), time(), UTC)
        if ago := re.fullmatch(r"([0-9]{1,9})([smhd])", text):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{text!r} is not a time: write {FORMS}.") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
