"""A trial deployment on one machine: the function packages and CDK stacks on LocalStack, with local servers for the
services that LocalStack does not have.

    with Cloud.start(config) as cloud:
        cloud.deploy()
        cloud.client("lambda").invoke(FunctionName=…)

`make deploy-local` runs everything once; tests/localstack asserts the results.
"""
