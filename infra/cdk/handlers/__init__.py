"""Small Lambda functions that the deployment itself needs. Their only dependency is boto3, which Lambda's runtime
contains.
"""
