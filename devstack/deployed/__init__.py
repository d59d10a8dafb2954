"""The deployment on one machine: our packages and stacks on LocalStack, with local servers for the services it lacks.

    with Cloud.start(config) as cloud:
        cloud.deploy()
        cloud.client("lambda").invoke(FunctionName=…)

`make deploy-local` runs everything once; tests/localstack asserts the results.
"""
