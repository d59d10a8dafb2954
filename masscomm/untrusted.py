"""Makes untrusted text safe to store and show: personal data is masked, and control characters are made visible.

E-mail addresses, phone numbers with a country code, device tokens, ARNs and AWS access keys are masked. Positions
(topic-partition@offset), UUIDs, trace ids and bare numbers are kept, because log lines are searched for them.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any

# In these regular expressions every quantifier is bounded, or follows a literal that it cannot match itself. So the
# time is linear in the length of the text.
_MASKS = tuple(
    (re.compile(pattern), f"[{name}]")
    for name, pattern in (
        ("arn", r"arn(?::|%3[Aa])aws[\w-]{0,20}(?::|%3[Aa])[^\s\"'`<>\\,;()\[\]{}]+"),
        ("access key", r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"),
        # A domain must have a letter, so that topic-partition@offset is not taken for an e-mail address.
        (
            "address",
            r"(?:\"[^\"\n]{1,320}\"|[^\s\"'`<>\\,;:()\[\]{}@|=/]{1,320})(?:@|%40)"
            r"(?:[\w.-]{0,255}[^\W\d_][\w.-]{0,255}|\[[^\]\s]{1,80}\])",
        ),
        # FCM's device tokens have at least 140 characters and those of APNs 64; a traceparent has 55, a UUID 36.
        ("token", r"[A-Za-z0-9_:-]{60,}"),
        ("phone", r"(?:\+|%2[Bb])[1-9](?:[ ().-]{0,2}\d){6,14}"),
    )
)
# Matches texts that no mask can match: each mask needs a capital letter, another character, or more characters; an
# address needs a letter after the @. Most texts in log lines and spans are such ids, names and positions
# (topic-partition@offset); the masks would take five times as long for them.
_PLAIN = re.compile(r"[a-z0-9_.-]{0,59}(?:@[0-9]{1,19})?")
# Control characters, format characters (bidirectional overrides, zero width, tags), line and paragraph separators, and
# surrogates.
_BEYOND_ASCII = (
    r"\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    r"\U000e0000-\U000e007f"
)
_CONTROLS = re.compile(rf"[\x00-\x1f{_BEYOND_ASCII}]")
_JSON_CONTROLS = re.compile(f"[{_BEYOND_ASCII}]")


def mask(text: str) -> str:
    """Return the text with `[address]`, `[phone]`, `[token]`, `[arn]` or `[access key]` in place of each such value."""
    if _PLAIN.fullmatch(text):
        return text
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    return text


def masked(value: Any) -> Any:
    """Return a JSON-like value with every text masked, keys included; numbers, booleans and None are unchanged."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask(str(key)): masked(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [masked(each) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return mask(str(value))


def visible(text: str) -> str:
    """Return the text on one line, with \\xNN, \\uNNNN or \\UNNNNNNNN in place of each control character."""
    return _CONTROLS.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def visible_json(document: str) -> str:
    """Return the text of a JSON value without characters that control a terminal or break a line within a value."""
    return _JSON_CONTROLS.sub(_json_escape, document)


def _json_escape(found: re.Match[str]) -> str:
    pair = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pair[start : start + 4]}" for start in range(0, len(pair), 4))


def mask_root_logger() -> None:
    """Mask all further records of the root logger, and write each on one line, so that no text can imitate a log
    line.
    """
    for handler in logging.getLogger().handlers:
        if not any(isinstance(each, _Masking) for each in handler.filters):
            handler.addFilter(_Masking())  # guard: masking.library_log_lines


class _Masking(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = visible(mask(record.getMessage())), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = visible(mask(record.exc_text))
        return True
