"""The alarms of an installation. The deployment creates them in CloudWatch, and the local stack evaluates them."""
