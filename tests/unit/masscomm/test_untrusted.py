from hypothesis import given
from hypothesis import strategies as st

from masscomm import untrusted


@given(st.from_regex(untrusted._PLAIN, fullmatch=True))
def test_no_mask_matches_a_plain_text(text: str) -> None:
    """mask() returns a plain text without trying the masks, so no mask may match one."""
    assert not [name for pattern, name in untrusted._MASKS if pattern.search(text)]


def test_each_kind_of_personal_data_is_masked() -> None:
    arn = "arn:aws:sns:us-east-1:000000000000:endpoint/GCM/app/1"
    found = untrusted.mask(f"{arn} AKIA000000000000 ada@example.com {'t' * 60} +49 170 0000000")
    assert found == "[arn] [access key] [address] [token] [phone]"
