"""Passes the e-mails to the unsubscribe mailbox to a function: a receipt rule of SES."""

from aws_cdk import aws_ses as ses
from aws_cdk import aws_ses_actions as actions
from constructs import Construct

from infra.cdk.config import MailboxConfig
from infra.cdk.resources.function import MasscommFunction


def receipt_rule(scope: Construct, *, function: MasscommFunction, mailbox: MailboxConfig, name: str) -> ses.ReceiptRule:
    """Return the rule by which SES invokes the function for each e-mail to the mailbox, asynchronously. The event has
    the headers alone: nothing stores the e-mail.

    Source: https://docs.aws.amazon.com/ses/latest/dg/receiving-email-action-lambda.html
    """
    rule_set = ses.ReceiptRuleSet.from_receipt_rule_set_name(scope, "receipt-rules", mailbox.rule_set)
    return ses.ReceiptRule(
        scope,
        "unsubscribe-mailbox",
        receipt_rule_name=name,
        rule_set=rule_set,
        recipients=[mailbox.address],
        actions=[actions.Lambda(function=function.alias, invocation_type=actions.LambdaInvocationType.EVENT)],
    )
