"""Content negotiation: chooses the offered media type that the caller prefers.

Source: RFC 9110, 12.5.1: the weight of a media type is that of the most specific range that matches it; 0 means "not
acceptable".
"""

from collections.abc import Sequence

from masscomm.http.problem import Problem
from masscomm.texts import Text


def chosen(accept: str | None, offered: Sequence[str]) -> str | None:
    """Return the offered type with the highest weight; None if no type is acceptable.

    Args:
        accept: The value of the Accept header; None or empty accepts every type. Malformed ranges are ignored.
        offered: The offered media types; of several with equal weight, the first is chosen.
    """
    if accept is None or not accept.strip():
        return offered[0]
    ranges = [found for part in accept.split(",") if (found := _range(part)) is not None]
    weights = {media_type: _weight(media_type, ranges) for media_type in offered}
    best = max(offered, key=lambda media_type: weights[media_type])
    return best if weights[best] > 0 else None


def negotiated(accept: str | None, *offered: str) -> str:
    """Return the media type of a response. Raises Problem with status 406 if the caller accepts no offered one."""
    media_type = chosen(accept, offered)
    if media_type is None:
        raise Problem(406, Text.NOT_ACCEPTABLE.filled(types=" or ".join(offered)))
    return media_type


def _range(part: str) -> tuple[str, float] | None:
    name, *parameters = (each.strip().lower() for each in part.split(";"))
    if name.count("/") != 1:
        return None
    weight = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return None
    return (name, weight) if 0 <= weight <= 1 else None


def _weight(media_type: str, ranges: list[tuple[str, float]]) -> float:
    by_name = dict(ranges)
    for name in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
        if name in by_name:
            return by_name[name]
    return 0.0
