"""The digest of a category or of a send, as the option --digest has it."""

import re

from cli.errors import CommandError
from masscomm.integers import integer
from masscomm_client.types import DigestFields

METAVAR = "TEMPLATE/WINDOW[,key=NAME][,list=NUMBER]"
_FORM = re.compile(r"(?P<template>[^/,]+)/(?P<time>[^,]+)(?:,key=(?P<key>[^,]+))?(?:,list=(?P<listed>[0-9]{1,9}))?")


def digest_in(text: str) -> DigestFields:
    """Return the digest in a text such as comments_digest/1h,key=post or daily/08:00. The API checks its values."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise CommandError(f"{text} is no digest: write --digest comments_digest/1h, or daily/08:00,key=post,list=20.")
    digest: DigestFields = {"template": found["template"]}
    if ":" in found["time"]:
        digest["at"] = found["time"]
    else:
        digest["window"] = found["time"]
    if found["key"] is not None:
        digest["key"] = found["key"]
    if found["listed"] is not None:
        digest["list"] = integer(found["listed"])
    return digest


def digest_text(digest: DigestFields) -> str:
    """Return a digest as the option has it."""
    key, listed = digest.get("key"), digest.get("list")
    return (
        f"{digest['template']}/{digest.get('window') or digest.get('at')}"
        + (f",key={key}" if key is not None else "")
        + (f",list={listed}" if listed is not None else "")
    )
