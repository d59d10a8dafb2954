import os

from masscomm_client import Client

with Client(os.environ["MASSCOMM_API_URL"], key=os.environ["MASSCOMM_API_KEY"]) as client:
    preferences = client.set_preferences(42, categories={"news": {"push": False}})
    for each in preferences["effective"]:
        print(each["category"], each["channel"], "yes" if each["wanted"] else "no")
