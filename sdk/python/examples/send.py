import os

from masscomm_client import Client

with Client(os.environ["MASSCOMM_API_URL"], key=os.environ["MASSCOMM_API_KEY"]) as client:
    send = client.send(type="announcement", club_id=1, to_users=[42], data={"title": "Hello", "body": "It works."})
    print(send["send_id"])
