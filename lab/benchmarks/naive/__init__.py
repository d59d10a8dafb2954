"""The chain as a first attempt would implement it: one event per recipient, one request per look-up, one flush per
message.

It has three programs, each a consumer of one topic:

    checker   GET the user's settings from OpenSearch; pass on users without an opt-out
    builder   GET the user; write the message
    delivery  GET the device and its state; publish with boto3

It has no ledger, no decision log, no retry, no lanes and no outcomes. `lab.benchmarks.chain` compares masscomm with it.
"""
