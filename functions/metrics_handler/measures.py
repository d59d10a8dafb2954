"""Parsers of the metrics routes' own parameters. masscomm.http.parameters has those of every route."""

from masscomm.domain.measures import MEASURES
from masscomm.http.parameters import choice, of_form
from masscomm.texts import Text

parse_measure = choice(MEASURES)


@of_form(Text.FORM_CHOICES.filled(choices=", ".join(MEASURES)))
def parse_measures(text: str) -> tuple[str, ...]:
    return tuple(parse_measure(name) for name in text.split(","))
