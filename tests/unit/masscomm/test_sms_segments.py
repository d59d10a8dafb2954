import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.domain.sms_segments import segments

# A character of two units is undivided: 153 units of pairs hold 76 of them.
CASES = [
    ("", 0),
    ("a" * 160, 1),
    ("a" * 161, 2),
    ("a" * 306, 2),
    ("a" * 307, 3),
    ("€" * 80, 1),
    ("€" * 81, 2),
    ("€" * 152, 2),
    ("€" * 153, 3),
    ("ж" * 70, 1),
    ("ж" * 71, 2),
    ("😀" * 35, 1),
    ("😀" * 36, 2),
    ("😀" * 66, 2),
    ("😀" * 67, 3),
    ("ç", 1),  # Not in the table, which has Ç.
    ("ç" * 71, 2),
]


@pytest.mark.kills(guard="sms_segments.undivided_character")
@pytest.mark.parametrize(("text", "count"), CASES)
def test_text_has_the_segments_of_the_standard(text: str, count: int) -> None:
    assert segments(text) == count


def slowly(text: str) -> int:
    """Count by filling segments one after the other, with the characters' bytes as Python's codecs have them."""
    gsm = set("@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ÄÖÑÜ§¿äöñüà")
    gsm |= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
    pairs = set("\f^{}\\[~]|€")
    is_gsm = all(each in gsm or each in pairs for each in text)
    sizes = [(1 + (each in pairs)) if is_gsm else len(each.encode("utf-16-le", "surrogatepass")) // 2 for each in text]
    if sum(sizes) <= (160 if is_gsm else 70):
        return min(1, len(sizes))
    parts: list[list[int]] = [[]]
    for size in sizes:
        if sum(parts[-1]) + size > (153 if is_gsm else 67):
            parts.append([])
        parts[-1].append(size)
    return len(parts)


@given(st.text(st.sampled_from("aä€^\n😀ж"), max_size=400))
def test_count_equals_that_of_a_slow_counter(text: str) -> None:
    assert segments(text) == slowly(text)
