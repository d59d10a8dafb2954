import pytest

from cli.errors import CommandError
from cli.sending import pairs, recipients


def test_recipients_are_ids_and_ranges() -> None:
    assert recipients("7") == [7]
    assert recipients("1, 3-5,2") == [1, 3, 4, 5, 2]


@pytest.mark.parametrize("text", ["", "a", "1-", "1-b", "5-4"])
def test_recipients_that_cannot_be_read_are_named(text: str) -> None:
    with pytest.raises(CommandError):
        recipients(text)


def test_data_is_key_and_value() -> None:
    assert pairs(["headline=We won = great", "empty="]) == {"headline": "We won = great", "empty": ""}
    with pytest.raises(CommandError, match="headline"):
        pairs(["headline"])
