"""The filters that format dates, numbers and plurals for the locale of a message."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, time
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from babel import Locale, UnknownLocaleError, dates, numbers

from masscomm.domain.locales import read_locale, with_parents
from masscomm.texts import Text

_FORMATS = ("short", "medium", "long", "full")
_LONGEST = 40
_MAX_EXPONENT = 20
_MAX_DECIMALS = 20
_FORMS = ("zero", "one", "two", "few", "many", "other")


# Users may have any text as their locale.
@lru_cache(maxsize=1_024)
def _locale(name: str) -> Locale:
    """Return Babel's locale, else that of its nearest parent, else English."""
    wanted = read_locale(name)
    parents = ("_".join(filter(None, (each.language, each.script, each.region))) for each in with_parents(wanted))
    for each in (name.replace("-", "_"), *parents):
        with suppress(ValueError, UnknownLocaleError):
            found = Locale.parse(each)
            # Babel has ku for ku_Arab.
            if read_locale(str(found)).script == wanted.script:
                return found
    return Locale("en")


def _moment(value: Any) -> datetime:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError(Text.RENDER_TIME.filled())
    return datetime.fromisoformat(value)


def _format(name: Any) -> Any:
    if name not in _FORMATS:
        raise ValueError(Text.RENDER_FORMAT.filled(formats=", ".join(_FORMATS)))
    return name


def _date(locale: str, value: Any, form: Any = "medium") -> str:
    return dates.format_date(_moment(value).date(), _format(form), _locale(locale))


def _time(locale: str, value: Any, form: Any = "short") -> str:
    moment = time.fromisoformat(value) if isinstance(value, str) and len(value) <= len("00:00:00") else _moment(value)
    return dates.format_time(moment, _format(form), locale=_locale(locale))


def _datetime(locale: str, value: Any, form: Any = "medium") -> str:
    return dates.format_datetime(_moment(value), _format(form), locale=_locale(locale))


def _decimal(value: Any) -> Decimal:
    """Return a number of a limited size. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > _LONGEST:
        raise ValueError(Text.RENDER_NUMBER.filled())
    try:
        number = Decimal(str(value))
    except InvalidOperation as error:
        raise ValueError(Text.RENDER_NO_NUMBER.filled(value=repr(value))) from error
    if not number.is_finite() or abs(number.adjusted()) > _MAX_EXPONENT:
        raise ValueError(Text.RENDER_RANGE.filled())
    return number


def _number(locale: str, value: Any, decimals: Any = None) -> str:
    number = _decimal(value)
    if decimals is None:
        return numbers.format_decimal(number, locale=_locale(locale))
    if not isinstance(decimals, int) or not 0 <= decimals <= _MAX_DECIMALS:
        raise ValueError(Text.RENDER_DECIMALS.filled(maximum=_MAX_DECIMALS))
    pattern = "#,##0." + "0" * decimals if decimals else "#,##0"
    return numbers.format_decimal(number, format=pattern, locale=_locale(locale))


def _percent(locale: str, value: Any) -> str:
    return numbers.format_percent(_decimal(value), locale=_locale(locale))


def _currency(locale: str, value: Any, code: Any = None) -> str:
    if not isinstance(code, str) or len(code) != 3 or not (code.isascii() and code.isupper()):
        raise ValueError(Text.RENDER_CURRENCY.filled())
    return numbers.format_currency(_decimal(value), code, locale=_locale(locale))


def _plural(locale: str, value: Any, **forms: Any) -> str:
    """Return the form of a text for a number; `{n}` in it is the number."""
    number = _decimal(value)
    if "other" not in forms or any(name not in _FORMS or not isinstance(text, str) for name, text in forms.items()):
        raise ValueError(Text.RENDER_PLURAL.filled(forms=", ".join(_FORMS)))
    known = _locale(locale)
    text: str = forms.get(known.plural_form(_shown(number, known)), forms["other"])
    return text.replace("{n}", numbers.format_decimal(number, locale=known), 1)


def _shown(number: Decimal, locale: Locale) -> Decimal:
    """Return the number that the locale's format shows: 1 for 1.0 and for 1.0004, which have the plurals of other
    numbers.
    """
    decimals: int = locale.decimal_formats[None].frac_prec[1]
    return round(number, decimals).normalize()  # guard: templates.plural_of_the_shown_number


FILTERS: Mapping[str, Callable[..., str]] = {
    "date": _date,
    "time": _time,
    "datetime": _datetime,
    "number": _number,
    "percent": _percent,
    "currency": _currency,
    "plural": _plural,
}
