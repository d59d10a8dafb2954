"""Names of locales, their parents, and the locale that stands in for another one."""

import json

import pytest
from babel import Locale as BabelLocale
from babel import localedata
from babel.core import get_global

from masscomm.domain.locales import nearest, read_locale, with_parents
from masscomm.rendering.localised_filters import _locale
from schemas import read_text
from tests.support.locale_data import locale_data


def test_stored_data_are_those_of_babel() -> None:
    """If this fails: python -m tests.support.locale_data > schemas/locales.json"""
    assert json.loads(read_text("locales.json")) == locale_data()


@pytest.mark.parametrize(
    "names",
    [
        ("de-CH", "de_CH", "de-ch", "de-Latn-CH", " de_CH ", "de_CH.UTF-8", "deu-CH"),
        ("he", "iw", "he-Hebr", "heb"),
        ("id", "in"),
        ("nb-NO", "no_NO"),
        ("fil", "tl"),
        ("zh-TW", "zh-Hant-TW", "zh_TW_#Hant", "cmn-TW"),
        ("zh", "zh-Hans"),
        ("zh-SG", "zh-Hans-SG"),
        ("sr-Latn", "sh"),
        ("sr-ME", "sr-Latn-ME", "sr_ME@latin"),
        ("pa-PK", "pa-Arab-PK"),
        ("en-GB", "en-UK", "en-826"),
        ("es-419", "es_419"),
    ],
)
def test_names_of_one_locale_are_equal(names: tuple[str, ...]) -> None:
    assert len({read_locale(name) for name in names}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("de", "de-DE"), ("sr", "sr-Latn"), ("zh-TW", "zh-HK"), ("nn", "nb"), ("de-x-a", "de"), ("", "en")],
)
def test_names_of_different_locales_are_not_equal(one: str, other: str) -> None:
    assert read_locale(one) != read_locale(other)


@pytest.mark.guarantee("templates.nearest_locale")
@pytest.mark.kills(guard="locales.parents")
@pytest.mark.kills(guard="locales.script")
@pytest.mark.parametrize(
    ("wanted", "available", "found"),
    [
        ("es-MX", ("es", "es-419"), "es-419"),
        ("es-MX", ("es", "en"), "es"),
        ("pt-AO", ("pt", "pt-PT", "pt-BR"), "pt-PT"),
        ("pt-BR", ("pt", "pt-PT"), "pt"),
        ("en-AT", ("en", "en-001", "en-150"), "en-150"),
        ("zh-MO", ("zh-Hant", "zh-HK", "zh"), "zh-HK"),
        ("nn-NO", ("no", "en"), "no"),
        ("sl-rozaj-1994", ("sl", "sl-rozaj"), "sl-rozaj"),
        ("de-u-ca-buddhist", ("de",), "de"),
        # Another region of the language: one of the same parent, then the likely one.
        ("es-AR", ("es-ES", "es-MX"), "es-MX"),
        ("pt", ("pt-AO", "pt-BR", "pt-PT"), "pt-BR"),
        ("de", ("de-AT", "de-CH"), "de-AT"),
        ("zh-TW", ("zh-HK", "zh-CN", "en"), "zh-HK"),
        # Another script.
        ("zh-TW", ("zh", "zh-CN"), None),
        ("zh-CN", ("zh-Hant",), None),
        ("sr-Latn-RS", ("sr", "sr-RS"), None),
        ("sr-ME", ("sr", "sr-Latn"), "sr-Latn"),
        ("az-IR", ("az",), None),
        # Another language, which CLDR names as the parent.
        ("hi-Latn", ("hi", "en-IN"), "en-IN"),
        ("ht", ("fr", "ht-HT"), "ht-HT"),
        ("fr", ("en", "de"), None),
        ("german", ("de", "en"), None),
    ],
)
def test_nearest_locale_is_a_parent_or_of_the_same_script(
    wanted: str, available: tuple[str, ...], found: str | None
) -> None:
    assert nearest(read_locale(wanted), {read_locale(each) for each in available}) == (found and read_locale(found))


def test_parents_of_every_locale_are_those_of_babel() -> None:
    """Babel's parent is a later one here, unless it is the root or a name without the likely script."""
    exceptions = get_global("parent_exceptions")
    for child in localedata.locale_identifiers():
        parent = exceptions.get(child)
        if parent is not None:
            assert read_locale(parent) in with_parents(read_locale(child)), child


def test_formats_of_every_locale_are_those_of_babel() -> None:
    for identifier in localedata.locale_identifiers():
        wanted, found = BabelLocale.parse(identifier), _locale(identifier)
        assert found.number_symbols == wanted.number_symbols, identifier
        assert found.date_formats["medium"].pattern == wanted.date_formats["medium"].pattern, identifier


@pytest.mark.parametrize(
    ("name", "babel"),
    [("sr-Latn-XX", "sr_Latn"), ("zh-Hant-XX", "zh_Hant"), ("es-XX", "es"), ("ku-Arab", "en"), ("xx", "en")],
)
def test_formats_of_an_unknown_region_have_its_script(name: str, babel: str) -> None:
    assert str(_locale(name)) == babel
