"""The OpenAPI document of the REST API.

    python -m ops.openapi > docs/openapi/masscomm.json

Each route has an Operation in the module of its function (sends.py, metrics.py). Routes and summaries are read from the
functions, schemas of bodies from the types with which the functions build them.
"""
