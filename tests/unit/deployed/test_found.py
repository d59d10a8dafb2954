"""The findings that make `make deploy-local` fail."""

from collections import Counter

from local.devstack.demo.oracle import Expected
from local.devstack.deployed.__main__ import found
from local.devstack.deployed.allowed import read_allowed
from local.devstack.deployed.trial import Answer, Sent, Trial
from masscomm.domain.ids import notification_id

SEND = "8a6e0804-2bd0-4672-b79d-d97027f9071a"
ENDPOINT = "arn:endpoint"


def sent(times: int) -> Sent:
    """A send to one user with one device, with this number of pushes."""
    push = (ENDPOINT, str(notification_id(SEND, 7, "push")))
    return Sent(
        Answer(202, {"send_id": SEND}), Expected({(7, "push"): "sent"}, 1), {ENDPOINT: "7"}, Counter({push: times})
    )


def trial() -> Trial:
    return Trial(
        missing=[(each.stack, each.type, "unknown") for each in read_allowed()],
        refused={"no key": Answer(401, {})},
        read=Answer(200, {}),
        now=sent(1),
        later=sent(1),
        smoke={"statuses": "", "e-mail": "", "metrics": "", "no alarm rings": "changes-stale, overdue"},
        without_data={"changes-stale", "overdue", "others"},
    )


def test_correct_deployment_has_no_findings() -> None:
    assert found(trial()) == []


def test_absent_resource_is_reported() -> None:
    wrong = trial()
    wrong.missing.append(("functions", "AWS::Lambda::Function", "masscomm-local-delivery"))
    assert found(wrong) == ["functions: AWS::Lambda::Function masscomm-local-delivery is nowhere"]


def test_existing_resource_in_the_allowed_list_is_reported() -> None:
    wrong = trial()
    stack, kind, _ = wrong.missing.pop()
    assert found(wrong) == [f"{stack}: {kind} is in allowed.tsv, but exists"]


def test_missing_or_doubled_push_is_found() -> None:
    for times in (0, 2):
        wrong = trial()
        wrong.now = sent(times)
        assert found(wrong) == ["a send: not every device was sent it once"]


def test_failed_check_of_smoke_is_found() -> None:
    """An alarm may ring if LocalStack has no data for it."""
    wrong = trial()
    wrong.smoke |= {"metrics": "5 after 120 s", "no alarm rings": "changes-stale, kafka-offline"}
    assert found(wrong) == ["smoke: metrics: 5 after 120 s", "smoke: no alarm rings: changes-stale, kafka-offline"]
    wrong.smoke = {}
    assert found(wrong) == ["smoke: 0 checks instead of 4"]


def test_leftover_admission_or_unreadable_metrics_is_found() -> None:
    wrong = trial()
    wrong.refused["no key"] = Answer(202, {})
    wrong.remaining = {"AWS::SQS::Queue": {"http://queue"}}
    wrong.read = Answer(502, {})
    complaints = " ".join(found(wrong))
    assert "left behind: AWS::SQS::Queue http://queue" in complaints
    assert "no key was let in: 202" in complaints
    assert "metrics could not be read" in complaints
