import json

from spark_metrics.counting.recipient_log import decisions_of


def test_decision_without_a_rule_and_settings_is_not_stored() -> None:
    columns = {
        "layer": ["provider", "user", "provider"],
        "rule": [None, "category:news channel:email", "code\0"],
        "settings_version": [None, 7, None],
        "settings_changed_at": [None, None, None],
    }
    found = [each and json.loads(each) for each in decisions_of(json.dumps(columns))]
    assert found == [
        None,
        {"layer": "user", "rule": "category:news channel:email", "settings_version": 7},
        {"layer": "provider", "rule": "code\ufffd"},
    ]
