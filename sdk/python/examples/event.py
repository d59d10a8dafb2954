import os

from masscomm_client import Client

event = {"event_id": "match-4711", "type": "match.finished", "club_id": 1, "data": {"goals": [2, 1]}}
with Client(os.environ["MASSCOMM_API_URL"], key=os.environ["MASSCOMM_API_KEY"]) as client:
    for each in client.report_events([event])["events"]:
        print(each["event_id"], each["status"])
