"""Small functions that the deployment itself needs. They use what Lambda's runtime brings: boto3 and nothing else."""
