import pytest

from masscomm.http.body import read_fields, read_object
from masscomm.http.problem import Problem


@pytest.mark.parametrize("read", [read_fields, read_object])
def test_fields_that_no_store_can_hold_are_named(read: object) -> None:
    assert callable(read)
    with pytest.raises(Problem) as raised:
        read('{"name": "x", "clubs": [1, -15009386826361901910756591403008], "deep": {"' + "n" * 300 + '": 1e999}}')
    assert raised.value.status == 400
    assert [(each.field[:10], each.message) for each in raised.value.errors] == [
        ("clubs[1]", "must be a 64-bit integer"),
        ("deep.nnnnn", "must be within the range of a double"),
    ]
    assert max(len(each.field) for each in raised.value.errors) == 200


@pytest.mark.parametrize("text", ["{", '{"a": 1, "a": 2}', "[" * 200 + "]" * 200, "1" * 5_000])
def test_body_other_than_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(Problem) as raised:
        read_object(text)
    assert [(each.field, each.message) for each in raised.value.errors] == [("", "must be a JSON object")]
