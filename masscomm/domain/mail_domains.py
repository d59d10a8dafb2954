"""Writes the domain of an e-mail address in ASCII.

Python's codec `idna` implements IDNA 2003, which replaces some letters: straße.de becomes strasse.de, the domain of
another owner. Labels with such a letter are encoded by IDNA 2008, as registries and browsers do. All other labels are
the same in both.

Sources: RFC 3490 (IDNA 2003); RFC 5891 (IDNA 2008), section 4.4; Unicode Technical Standard 46, "Deviation characters".
"""

import re
from encodings.idna import nameprep

# The characters that IDNA 2003 replaces or removes, and IDNA 2008 keeps: sharp s, final sigma, and two joiners.
_KEPT = re.compile("([\u00df\u03c2\u200c\u200d])")
_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_LONGEST_LABEL = 63


def domain_in_ascii(domain: str) -> str:
    """Return a domain in ASCII; it is unchanged if it is in ASCII already. Raises ValueError if it is invalid."""
    if domain.isascii():
        return domain
    # The capital sharp s is the upper case of the small one.
    domain = domain.replace("\u1e9e", "\u00df")
    if not _KEPT.search(domain):  # guard: email.domain_of_another_owner
        return domain.encode("idna").decode()
    return ".".join(_by_2008(label) if _KEPT.search(label) else _by_2003(label) for label in _DOTS.split(domain))


def _by_2003(label: str) -> str:
    if not label:
        raise ValueError("a label of the domain is empty")
    return label.encode("idna").decode()


def _by_2008(label: str) -> str:
    # The rest of the label is prepared as in IDNA 2003: lower case, normalised, without forbidden characters.
    prepared = "".join(part if _KEPT.fullmatch(part) else nameprep(part) for part in _KEPT.split(label))
    encoded = f"xn--{prepared.encode('punycode').decode()}"
    if len(encoded) > _LONGEST_LABEL:
        raise ValueError(f"a label of the domain is longer than {_LONGEST_LABEL} characters")
    return encoded
