"""Make untrusted text safe to store and show: mask personal data, and make control characters visible.

Masked are e-mail addresses, phone numbers with a country code, device tokens, ARNs and AWS access keys. Positions
(topic-partition@offset), UUIDs, trace ids and bare numbers stay: log lines are searched by them.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any

# Every quantifier is bounded or follows a literal that cannot repeat into it: the time is linear in the text's length.
_MASKS = tuple(
    (re.compile(pattern), f"[{name}]")
    for name, pattern in (
        ("arn", r"arn(?::|%3[Aa])aws[\w-]{0,20}(?::|%3[Aa])[^\s\"'`<>\\,;()\[\]{}]+"),
        ("access key", r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"),
        # A domain has a letter: topic-partition@offset is no address.
        (
            "address",
            r"(?:\"[^\"\n]{1,320}\"|[^\s\"'`<>\\,;:()\[\]{}@|=/]{1,320})(?:@|%40)"
            r"(?:[\w.-]{0,255}[^\W\d_][\w.-]{0,255}|\[[^\]\s]{1,80}\])",
        ),
        # FCM's tokens have 140 characters and more, APNs' 64; a traceparent has 55, a UUID 36.
        ("token", r"[A-Za-z0-9_:-]{60,}"),
        ("phone", r"(?:\+|%2[Bb])[1-9](?:[ ().-]{0,2}\d){6,14}"),
    )
)
# Controls, format characters (bidirectional overrides, zero width, tags), line and paragraph separators, surrogates.
_BEYOND_ASCII = (
    r"\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    r"\U000e0000-\U000e007f"
)
_CONTROLS = re.compile(rf"[\x00-\x1f{_BEYOND_ASCII}]")
_JSON_CONTROLS = re.compile(f"[{_BEYOND_ASCII}]")


def mask(text: str) -> str:
    """Return the text with `[address]`, `[phone]`, `[token]`, `[arn]` or `[access key]` in place of each."""
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
    """Return the same JSON value in a text without characters that control a terminal or end a line within a value.

    Line ends between values are unchanged.
    """
    return _JSON_CONTROLS.sub(_json_escape, document)


def _json_escape(found: re.Match[str]) -> str:
    pair = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pair[start : start + 4]}" for start in range(0, len(pair), 4))


def mask_root_logger() -> None:
    """Mask later records of the root logger's handlers, one line each: no text can imitate another log line."""
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
