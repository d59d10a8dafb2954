"""Parsers of the metrics routes' own parameters, and those of every route (masscomm.http.parameters)."""

from masscomm.domain.measures import MEASURES
from masscomm.http.parameters import Reader, rfc3339, time, whole_number, words

__all__ = ["Reader", "measure", "measures", "rfc3339", "time", "whole_number", "words"]

# The API description shows the docstrings of the following parsers to callers.


def measure(text: str) -> str:
    if text not in MEASURES:
        raise ValueError(text)
    return text


measure.__doc__ = f"one of {', '.join(MEASURES)}"


def measures(text: str) -> tuple[str, ...]:
    return tuple(measure(name) for name in text.split(","))


measures.__doc__ = f"any of {', '.join(MEASURES)}, several times or with commas between them"
