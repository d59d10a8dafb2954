"""The texts of the pages of an unsubscribe link, in each language of masscomm's console."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The texts of one language. {category} and {sender} are filled in."""

    ask_title: str
    ask: str
    button: str
    done_title: str
    done: str
    invalid_title: str
    invalid: str
    later_title: str
    later: str
    often_title: str
    often: str
    form_title: str
    form: str
    # The line above the title, with the sender of the e-mails.
    sender: str


ENGLISH = Texts(
    ask_title="Unsubscribe",
    ask="Do you want no more e-mails of the category {category}?",
    button="Unsubscribe",
    done_title="Unsubscribed",
    done="You get no more e-mails of the category {category}. Other messages still arrive.",
    invalid_title="This link is not valid",
    invalid="It may be too old, or incomplete. Use the link of a newer e-mail, or the settings of your account.",
    later_title="Not unsubscribed yet",
    later="The service does not answer at the moment. Try again later.",
    often_title="Too many requests",
    often="Try again in a minute.",
    form_title="Not unsubscribed",
    form="The form has another field than List-Unsubscribe. Open the link again, and use its button.",
    sender="E-mails from {sender}",
)
TEXTS: Mapping[str, Texts] = {
    "en": ENGLISH,
    "de": Texts(
        ask_title="Abbestellen",
        ask="Möchten Sie keine E-Mails der Kategorie {category} mehr erhalten?",
        button="Abbestellen",
        done_title="Abbestellt",
        done="Sie erhalten keine E-Mails der Kategorie {category} mehr. Andere Nachrichten kommen weiterhin an.",
        invalid_title="Dieser Link ist nicht gültig",
        invalid="Er ist vielleicht zu alt oder unvollständig. Nehmen Sie den Link einer neueren E-Mail oder die"
        " Einstellungen Ihres Kontos.",
        later_title="Noch nicht abbestellt",
        later="Der Dienst antwortet zurzeit nicht. Versuchen Sie es später noch einmal.",
        often_title="Zu viele Anfragen",
        often="Versuchen Sie es in einer Minute noch einmal.",
        form_title="Nicht abbestellt",
        form="Das Formular hat ein anderes Feld als List-Unsubscribe. Öffnen Sie den Link noch einmal, und nehmen Sie"
        " den Knopf der Seite.",
        sender="E-Mails von {sender}",
    ),
}


def language_of(locale: str) -> str:
    """Return the language of the texts for a locale, such as de for de-AT; English if there are none."""
    language = locale.replace("_", "-").partition("-")[0].lower()
    return language if language in TEXTS else "en"
