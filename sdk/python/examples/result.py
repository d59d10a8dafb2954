import os
import sys

from masscomm_client import Client

send_id = sys.argv[1]
with Client(os.environ["MASSCOMM_API_URL"], key=os.environ["MASSCOMM_API_KEY"]) as client:
    for send in client.follow(send_id):
        print(send["status"], send["requested"])
    for row in client.recipients(send_id):
        print(row["user_id"], row["channel"], row["status"])
