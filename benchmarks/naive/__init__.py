"""The chain as a first attempt writes it: one event a recipient, one request a look-up, one flush a message.

Three programs, each a consumer of one topic:

    checker   GET the user's settings from OpenSearch; pass on users without an opt-out
    builder   GET the user; write the message
    delivery  GET the device and its state; publish with boto3

It has no ledger, no decision log, no retry, no lanes and no outcomes. `benchmarks.chain` compares masscomm with it.
"""
