"""Renders the messages of one record, or of a preview."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from masscomm.domain.limits import RECORD_STEPS
from masscomm.domain.records import ContentFields
from masscomm.domain.users import Template, User
from masscomm.rendering.compiler import DEFAULT_LOCALE, LOCALE, RenderError, Steps
from masscomm.rendering.templates import (
    Field,
    by_locale,
    choose,
    context_of,
    fields_of,
    format_locale,
    literal_fields,
)
from masscomm.texts import Text

# Loading the data of a region takes 1 ms, if that of its language is loaded.
_REGION_STEPS = 1_000
_NO_DATA: Mapping[str, str] = MappingProxyType({})


class MessageWriter:
    """Renders the messages of one record. A field whose text does not depend on the user is rendered once for each
    template, and for each locale if it has dates or numbers.

    Each template has a share of the record's steps (units of rendering work). A template that uses up its share fails
    for its own recipients only. Half of the steps are divided equally between the templates, the other half by their
    numbers of recipients. With `steps`, all templates share these: those that a preview has for all its channels.
    """

    def __init__(
        self,
        content: ContentFields,
        channel: str,
        templates: Sequence[Template],
        users: Sequence[User],
        steps: Steps | None = None,
    ) -> None:
        self._content = content
        self._channel = channel
        in_locale = by_locale(templates)
        locales = Counter(self._locale(user) for user in users)
        self._templates = {locale: choose(in_locale, locale) for locale in locales}
        recipients: Counter[int | None] = Counter()
        for locale, number in locales.items():
            recipients[_id_of(self._templates[locale])] += number
        self._steps = {
            # guard: templates.share_of_steps
            template_id: steps or Steps(RECORD_STEPS / 2 * (1 / len(recipients) + number / len(users)))
            for template_id, number in recipients.items()
        }
        # By template id: the compiled fields of the template, or its error.
        self._fields: dict[int | None, list[Field] | RenderError | None] = {}
        self._shared: dict[tuple[int | None, str, str], str | RenderError] = {}
        # The templates and locales that were charged.
        self._regions: set[tuple[int | None, str]] = set()

    def template_of(self, user: User) -> Template | None:
        """Return the template of the user's message; None if no template applies."""
        return self._templates[self._locale(user)]

    def texts(self, user: User, own: Mapping[str, str] = _NO_DATA) -> dict[str, str] | None:
        """Return the texts of the message by field name; None if no template applies. Raises RenderError.

        Args:
            user: The recipient.
            own: The variables of this recipient alone, which replace those of the send.
        """
        template = self.template_of(user)
        template_id = _id_of(template)
        if template_id not in self._fields:
            self._fields[template_id] = self._fields_of(template)
        fields = self._fields[template_id]
        if isinstance(fields, RenderError):
            raise fields
        data = {**self._content.data, **own} if own else self._content.data
        if template is None and own:
            fields = literal_fields(self._channel, data)
        if fields is None:
            return None
        locale = self._format_locale(user, template, fields)
        context = context_of(user, self._content.club_id, data, locale, self._content.collected)
        texts = {field.name: self._text(field, template_id, context, bool(own)) for field in fields}
        # Phones show an empty push, or none: the conditions of a template may leave out every word.
        if not any(map(str.strip, texts.values())):  # guard: templates.blank_message
            raise RenderError(Text.RENDER_BLANK.filled())
        return texts

    def _format_locale(self, user: User, template: Template | None, fields: Sequence[Field]) -> str:
        """Return the locale of dates, numbers and plurals. Raises RenderError."""
        if template is None or not any(field.localised for field in fields):
            return DEFAULT_LOCALE
        locale = format_locale(template, self._locale(user))
        key = (template.template_id, locale)
        if locale != template.locale and key not in self._regions:
            steps = self._steps[template.template_id]
            steps.begin_rendering()
            steps.spend(_REGION_STEPS)  # guard: templates.steps_of_regions
            self._regions.add(key)
        return locale

    def _locale(self, user: User) -> str:
        return self._content.locale or user.locale or DEFAULT_LOCALE

    def _fields_of(self, template: Template | None) -> list[Field] | RenderError | None:
        if template is None:
            return literal_fields(self._channel, self._content.data)
        try:
            return fields_of(template, self._steps[template.template_id])
        except RenderError as error:
            return error

    def _text(self, field: Field, template_id: int | None, context: Mapping[str, Any], has_own: bool) -> str:
        steps = self._steps[template_id]
        if field.personal or (has_own and field.reads_data):  # guard: templates.own_data_is_not_shared
            return field.render(context, steps)
        key = (template_id, field.name, context[LOCALE] if field.localised else "")
        if key not in self._shared:
            self._shared[key] = _rendered(field, context, steps)
        text = self._shared[key]
        if isinstance(text, RenderError):
            raise text
        return text


def _id_of(template: Template | None) -> int | None:
    return None if template is None else template.template_id


def _rendered(field: Field, context: Mapping[str, Any], steps: Steps) -> str | RenderError:
    """Return the text of a field that all recipients share, or the error of rendering it."""
    try:
        return field.render(context, steps)
    except RenderError as error:
        return error
