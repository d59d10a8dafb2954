import os

from masscomm_client import Client

with Client(os.environ["MASSCOMM_API_URL"], key=os.environ["MASSCOMM_API_KEY"]) as client:
    data = {"title": "Hello", "body": "It works."}
    forecast = client.dry_run(type="announcement", club_id=1, to_users=[42, 43], data=data)
    for each in forecast["channels"]:
        print(each["channel"], each["deliverable"], "of", each["requested"])
        for reason in each["reasons"]:
            print(reason["count_total"], reason["status"], reason["reason"])
