"""The deployment on one machine: our packages and stacks on LocalStack, with the servers that LocalStack lacks.

    with Cloud.start(config) as cloud:
        cloud.deploy()
        cloud.client("lambda").invoke(FunctionName=…)

`make deploy-local` does everything once; tests/localstack holds what must be true of it.
"""
