"""LocalStack plug-ins for features that its community edition lacks: functions without Docker, authorizers.

LocalStack finds these by entry points (ENTRY_POINTS), which are in the same folder only where
devstack.services.localstack starts it: nothing is installed. They run in LocalStack's own process and environment; of
our packages they import the function host alone.
"""

ENTRY_POINTS = """\
[localstack.lambda.runtime_executor]
processes = emulators.localstack_plugins.executor:ProcessExecutorPlugin

[localstack.hooks.lambda_create_event_source_poller]
polled_elsewhere = emulators.localstack_plugins.kafka:polled_elsewhere

[localstack.cloudformation.resource_providers]
aws::apigateway::authorizer = emulators.localstack_plugins.authorizer:AuthorizerPlugin

[localstack.hooks.on_infra_start]
ask_authorizers = emulators.localstack_plugins.authorizer:ask_authorizers
"""
