import os
import sys

from masscomm_client import ApiError, Client

with Client(os.environ["MASSCOMM_API_URL"], key=os.environ["MASSCOMM_API_KEY"]) as client:
    try:
        print(client.cancel(sys.argv[1])["status"])
    except ApiError as error:
        print(error.status, error.detail)
