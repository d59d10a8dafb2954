"""The deployment on one machine: our packages and stacks on LocalStack, beside the servers that it has none of.

    with Cloud.start(config) as cloud:
        cloud.deploy()
        cloud.client("lambda").invoke(FunctionName=…)

`make deploy-local` does everything once; tests/localstack holds what must be true of it.
"""
