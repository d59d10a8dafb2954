"""SES passes the e-mails to the unsubscribe mailbox to preferences_handler, and failed ones are kept."""

from tests.support.cdk.synthesise import MAILBOX
from tests.support.cdk.templates import SynthesisedEnvironment


def test_receipt_rule_invokes_the_function_for_the_mailbox(replacing: SynthesisedEnvironment) -> None:
    (rule,) = replacing.resources("AWS::SES::ReceiptRule")
    assert rule.properties["RuleSetName"] == MAILBOX.rule_set
    properties = rule.properties["Rule"]
    assert properties["Recipients"] == [MAILBOX.address]
    assert properties["Enabled"] is True
    ((action,),) = (properties["Actions"],)
    assert action["LambdaAction"]["InvocationType"] == "Event"
    (alias,) = (
        each
        for each in replacing.resources("AWS::Lambda::Alias")
        if each.id == action["LambdaAction"]["FunctionArn"]["Ref"]
    )
    permission = next(
        each.properties
        for each in replacing.resources("AWS::Lambda::Permission")
        if each.properties["Principal"] == "ses.amazonaws.com"
    )
    assert permission["FunctionName"] == {"Ref": alias.id}
    # Without it, any account's rules could invoke the function ("confused deputy").
    assert permission["SourceAccount"] == {"Ref": "AWS::AccountId"}


def test_functions_know_the_mailbox(replacing: SynthesisedEnvironment, prod: SynthesisedEnvironment) -> None:
    def mailboxes(environment: SynthesisedEnvironment) -> dict[str, str]:
        return {
            str(each.properties["FunctionName"]).removeprefix(f"masscomm-{environment.name}-"): variables[
                "UNSUBSCRIBE_MAILBOX"
            ]
            for each in environment.resources("AWS::Lambda::Function")
            if "UNSUBSCRIBE_MAILBOX" in (variables := each.properties.get("Environment", {}).get("Variables", {}))
        }

    assert set(mailboxes(replacing).values()) == {MAILBOX.address}
    assert {"delivery", "delivery-critical", "preferences_handler", "operations_handler"} == set(mailboxes(replacing))
    assert mailboxes(prod) == {}
    assert not list(prod.resources("AWS::SES::ReceiptRule"))


def test_failed_e_mails_are_kept(replacing: SynthesisedEnvironment) -> None:
    (queue,) = (
        each
        for each in replacing.resources("AWS::SQS::Queue")
        if str(each.properties.get("QueueName")).endswith("-preferences_handler-missed")
    )
    kept = [
        each.properties["DestinationConfig"]["OnFailure"]["Destination"]
        for each in replacing.resources("AWS::Lambda::EventInvokeConfig")
    ]
    assert {"Fn::GetAtt": [queue.id, "Arn"]} in kept
