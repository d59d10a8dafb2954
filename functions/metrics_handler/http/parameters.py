"""Parsers of the metrics routes' own parameters. masscomm.http.parameters has those of every route."""

from masscomm.domain.measures import MEASURES

# The API description shows the docstrings of these parsers to callers.


def parse_measure(text: str) -> str:
    if text not in MEASURES:
        raise ValueError(text)
    return text


parse_measure.__doc__ = f"one of {', '.join(MEASURES)}"


def parse_measures(text: str) -> tuple[str, ...]:
    return tuple(parse_measure(name) for name in text.split(","))


parse_measures.__doc__ = f"any of {', '.join(MEASURES)}, several times or with commas between them"
