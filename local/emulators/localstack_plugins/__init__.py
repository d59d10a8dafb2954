"""LocalStack plug-ins for features that its community edition does not have: functions without Docker, and
authorizers.

LocalStack finds plug-ins by entry points (ENTRY_POINTS). local.devstack.services.localstack writes these entry points
to a folder on LocalStack's path, so that the plug-ins need not be installed. They run in LocalStack's own process and
environment; of our packages they import only the function host.
"""

# The variable of LocalStack's process with the address to which functions send e-mails.
MAIL_VARIABLE = "MASSCOMM_MAIL_URL"
ENTRY_POINTS = """\
[localstack.lambda.runtime_executor]
processes = local.emulators.localstack_plugins.executor:ProcessExecutorPlugin

[localstack.hooks.lambda_create_event_source_poller]
polled_elsewhere = local.emulators.localstack_plugins.kafka:polled_elsewhere

[localstack.cloudformation.resource_providers]
aws::apigateway::authorizer = local.emulators.localstack_plugins.authorizer:AuthorizerPlugin

[localstack.hooks.on_infra_start]
ask_authorizers = local.emulators.localstack_plugins.authorizer:ask_authorizers
"""
