"""The CDK stacks: they compose the constructs of resources/ and grant permissions."""
