"""The initial templates of the monolith. A send supplies {{ data.* }}; optional values have a default."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Template:
    """A template of one category, channel and locale."""

    # The club of the template; None: all clubs.
    club_id: int | None
    type: str
    channel: str
    locale: str
    # The title of a push, or the subject of an e-mail.
    title: str
    body: str
    html: str | None = None
    # The deep link of a push.
    url: str | None = None


TEMPLATES = (
    Template(
        None, "news", "push", "en",
        "{{ data.headline | default('News from your club') }}",
        "Hello {{ user.first_name }}, there is news for you.",
    ),
    Template(
        None, "news", "push", "de",
        "{{ data.headline | default('Neues aus deinem Verein') }}",
        "Hallo {{ user.first_name }}, es gibt Neues für dich.",
    ),
    Template(
        None, "news", "push", "fr",
        "{{ data.headline | default('Des nouvelles de ton club') }}",
        "Bonjour {{ user.first_name }}, il y a du nouveau.",
    ),
    Template(
        2, "news", "push", "en",
        "{{ data.headline | default('Riverside news') }}",
        "{{ user.first_name }}, Riverside has something to tell you.",
    ),
    Template(
        None, "news_digest", "push", "en",
        "{{ digest.count }} news",
        "{% for each in digest.list %}{{ each.headline | default('News') }}. {% endfor %}",
    ),
    Template(
        None, "match_reminder", "push", "en",
        "{{ data.opponent | default('The next match') }}",
        "{{ user.first_name }}, kick-off is at {{ data.kick_off | default('the usual time') }}.",
        url="riverside://matches/{{ data.match | default('next') | urlencode }}",
    ),
    Template(
        None, "match_reminder", "push", "de",
        "{{ data.opponent | default('Das nächste Spiel') }}",
        "{{ user.first_name }}, Anpfiff ist um {{ data.kick_off | default('gewohnter Zeit') }}.",
        url="riverside://matches/{{ data.match | default('next') | urlencode }}",
    ),
    Template(
        None, "one_time_password", "push", "en",
        "Your code",
        "{{ data.code | default('000000') }} is your code. It is valid for five minutes.",
    ),
    Template(
        None, "one_time_password", "push", "fr",
        "Ton code",
        "{{ data.code | default('000000') }} est ton code. Il est valable cinq minutes.",
    ),
    Template(
        None, "security_alert", "push", "en",
        "Was this you?",
        "{{ user.first_name }}, somebody signed in to your account.",
    ),
    Template(
        None, "security_alert", "email", "en",
        "Somebody signed in to your account",
        "Hello {{ user.first_name }} {{ user.last_name }},\n\nif this was not you, change your password now.\n",
        "<p>Hello {{ user.first_name }} {{ user.last_name }},</p><p>if this was not you, change your password now.</p>",
    ),
    Template(
        None, "webhook_disabled", "email", "en",
        "A webhook endpoint was disabled",
        "Hello {{ user.first_name }},\n\nthe endpoint {{ data.endpoint_id }} gets no events any more:"
        " {{ data.reason }}\n"
        "Repair the receiver, then enable the endpoint and send its dead letters again.\n",
        "<p>Hello {{ user.first_name }},</p><p>the endpoint {{ data.endpoint_id }} gets no events any more:"
        " {{ data.reason }}</p><p>Repair the receiver, then enable the endpoint and send its dead letters again.</p>",
    ),
    Template(
        None, "newsletter", "email", "en",
        "{{ data.headline | default('The month at your club') }}",
        "Dear {{ user.first_name }} {{ user.last_name }},\n\nthis is what happened at your club (no. {{ club_id }}).\n",
        "<h1>{{ data.headline | default('The month at your club') }}</h1><p>Dear {{ user.first_name }},</p>",
    ),
    Template(
        None, "newsletter", "email", "de",
        "{{ data.headline | default('Der Monat in deinem Verein') }}",
        "Liebe/r {{ user.first_name }} {{ user.last_name }},\n\ndas war los in deinem Verein (Nr. {{ club_id }}).\n",
        "<h1>{{ data.headline | default('Der Monat in deinem Verein') }}</h1><p>Liebe/r {{ user.first_name }},</p>",
    ),
)  # fmt: skip
