"""A fast local server in place of Amazon SNS' mobile push, of SES and of SMS: it logs each accepted message, and
responds by rules that tests set.

LocalStack accepts about 400 publishes a second. This server accepts thousands, so that a benchmark measures the client
and not the server. It has the Query APIs of SNS (Publish, platform applications and endpoints) and of SES, version 1
(SendRawEmail), version 2 of the API of SES (SendEmail, identities, tenants), which LocalStack lacks, and the JSON API
of AWS End User Messaging SMS (SendTextMessage). It passes tests/support/contracts/provider.py, and runs in a process of
its own:

    with SnsStandIn.start() as sns:                            # on a free port; log=PATH keeps every accepted publish
        boto3.client("sns", endpoint_url=sns.url)              # or AWS_ENDPOINT_URL_SNS in a function's environment
        sns.limit(per_s=500)                                   # throttles publishes above the rate
        sns.answer(Rule(code="InternalError", share=0.1))      # one call in ten
        sns.answer(Rule(code="EndpointDisabled", endpoint=arn))
        sns.answer(Rule(code="reset_after", times=3))          # accepted, and the answer is lost
        sns.answer(Rule(code="slow", delay_s=0.025))           # the provider's latency
        sns.answer(Rule(code="hold", after=150))               # accepted, and answered once `release` is called
        sns.received()                                         # [Received(time, endpoint, message_id, notification_id)]
        sns.counts()                                           # Counts(calls, accepted, refused by code, held)
        sns.clear()                                            # no rules, no limit; received publishes stay

Endpoints must have been created, as with SNS (CreatePlatformApplication, CreatePlatformEndpoint). With
any_endpoint=True an endpoint that was never created accepts messages too, and no sender needs to be verified. An
endpoint's ARN follows from its application and token (`endpoint_arn`), so that a test can name a hundred thousand
endpoints without creating them.

From a shell: `python -m local.emulators.sns_stand_in --port 4570 --log published.jsonl` (its HTTP interface:
local/devstack/sns_process.py).
"""

from local.emulators.sns_stand_in.endpoints import endpoint_arn
from local.emulators.sns_stand_in.script import Rule

__all__ = ["Rule", "endpoint_arn"]
