"""Receipts in the formats that AWS documents, with the documented fields and ids of the tests.

Sources: sns/latest/dg/sns-msg-status (pushes), sns/latest/dg/sms_stats_cloudwatch (SMS),
sns/latest/dg/application-event-notifications and sns-fcm-v1-payloads (failure types),
ses/latest/dg/event-publishing-retrieving-sns-examples, lambda/latest/dg/with-sns and services-cloudwatchlogs.
"""

import base64
import gzip
import json
from datetime import UTC, datetime
from typing import Any

from tests.support.sms import ANSWERED_AT

ARN = "arn:aws:sns:us-east-2:111122223333:endpoint"
GCM = f"{ARN}/GCM/app/c23e42de-3699-3639-84dd-65f84474629d"
APNS = f"{ARN}/APNS_SANDBOX/app/986cb8a1-4f6b-34b1-9a1b-d9e9cb553944"
ADDRESS = "recipient@example.com"

PUSHED = {
    "status": "SUCCESS",
    "notification": {"timestamp": "2015-01-26 23:07:39.54", "messageId": "m"},
    "delivery": {
        "statusCode": 200,
        "dwellTimeMs": 65,
        "token": "a-token",
        "attempts": 1,
        "providerResponse": '{"multicast_id":5138139752481671853,"success":1,"failure":0,"canonical_ids":0,'
        '"results":[{"message_id":"0:1422313659698010%d6ba8edff9fd7ecd"}]}',
        "destination": GCM,
    },
}
PUSH_FAILED = {
    "status": "FAILURE",
    "notification": {"timestamp": "2015-01-26 23:29:35.678", "messageId": "m"},
    "delivery": {
        "statusCode": 8,
        "dwellTimeMs": 1451,
        "token": "a-token",
        "attempts": 1,
        "providerResponse": "NotificationErrorResponse(command=8, status=InvalidToken, id=1, cause=null)",
        "destination": APNS,
    },
}
SMS_TAKEN = {
    "notification": {"messageId": "m", "timestamp": "2016-06-28 00:40:34.558"},
    "delivery": {
        "phoneCarrier": "My Phone Carrier",
        "mnc": 270,
        "numberOfMessageParts": 1,
        "destination": "+1XXX5550100",
        "priceInUSD": 0.00645,
        "smsType": "Transactional",
        "mcc": 310,
        "providerResponse": "Message has been accepted by phone carrier",
        "dwellTimeMs": 599,
        "dwellTimeMsUntilDeviceAck": 1344,
    },
    "status": "SUCCESS",
}
SMS_FAILED = {
    "notification": {"messageId": "m", "timestamp": "2016-06-28 00:40:34.559"},
    "delivery": {
        "mnc": 0,
        "destination": "+1XXX5550100",
        "priceInUSD": 0.00645,
        "smsType": "Transactional",
        "mcc": 0,
        "providerResponse": "Unknown error attempting to reach phone",
        "dwellTimeMs": 1420,
        "dwellTimeMsUntilDeviceAck": 1692,
    },
    "status": "FAILURE",
}
APPLICATION_EVENT = {
    "DeliveryAttempts": 1,
    "EndpointArn": GCM,
    "EventType": "DeliveryFailure",
    "FailureMessage": "Platform token associated with the endpoint is not valid",
    "FailureType": "InvalidPlatformToken",
    "MessageId": "m",
    "Resource": "arn:aws:sns:us-east-2:111122223333:app/GCM/app",
    "Service": "SNS",
    "Time": "2025-09-30T11:31:53.650Z",
}
MAIL = {
    "timestamp": "2017-08-05T00:40:02.012Z",
    "source": "Sender Name <sender@example.com>",
    "sourceArn": "arn:aws:ses:us-east-1:123456789012:identity/sender@example.com",
    "sendingAccountId": "123456789012",
    "messageId": "m",
    "destination": [ADDRESS],
    "headersTruncated": False,
    "headers": [{"name": "Subject", "value": "Message sent from Amazon SES"}],
    "commonHeaders": {"from": ["Sender Name <sender@example.com>"], "to": [ADDRESS], "messageId": "m"},
    "tags": {"ses:configuration-set": ["ConfigSet"], "ses:source-ip": ["192.0.2.0"]},
}
DELIVERED = {
    "eventType": "Delivery",
    "mail": MAIL,
    "delivery": {
        "timestamp": "2017-08-05T00:40:04.133Z",
        "processingTimeMillis": 11893,
        "recipients": [ADDRESS],
        "smtpResponse": "250 2.6.0 Message received",
        "remoteMtaIp": "123.456.789.012",
        "reportingMTA": "mta.example.com",
    },
}
BOUNCED = {
    "eventType": "Bounce",
    "bounce": {
        "bounceType": "Permanent",
        "bounceSubType": "General",
        "bouncedRecipients": [
            {
                "emailAddress": ADDRESS,
                "action": "failed",
                "status": "5.1.1",
                "diagnosticCode": "smtp; 550 5.1.1 user unknown",
            }
        ],
        "timestamp": "2017-08-05T00:41:02.669Z",
        "feedbackId": "01000157c44f053b-61b59c11-9236-11e6-8f96-7be8aexample-000000",
        "reportingMTA": "dsn; mta.example.com",
    },
    "mail": MAIL,
}
_COMPLAINT: dict[str, Any] = {
    "complainedRecipients": [{"emailAddress": ADDRESS}],
    "timestamp": "2017-08-05T00:41:02.669Z",
    "feedbackId": "01000157c44f053b-61b59c11-9236-11e6-8f96-7be8aexample-000000",
    "complaintSubType": None,
    "userAgent": "Mozilla/5.0",
    "complaintFeedbackType": "abuse",
    "arrivalDate": "2017-08-05T00:41:02.669Z",
}
COMPLAINED = {"eventType": "Complaint", "complaint": _COMPLAINT, "mail": MAIL}
# SES did not send the message, because of an earlier complaint.
COMPLAINED_BEFORE = {
    "eventType": "Complaint",
    "complaint": {**_COMPLAINT, "complaintSubType": "OnAccountSuppressionList"},
    "mail": MAIL,
}
REJECTED = {"eventType": "Reject", "mail": MAIL, "reject": {"reason": "Bad content"}}
NOT_RENDERED = {
    "eventType": "Rendering Failure",
    "mail": MAIL,
    "failure": {
        "errorMessage": "Attribute 'attributeName' is not present in the rendering data.",
        "templateName": "MyTemplate",
    },
}
DELAYED = {
    "eventType": "DeliveryDelay",
    "mail": MAIL,
    "deliveryDelay": {
        "timestamp": "2020-06-16T00:25:40.095Z",
        "delayType": "TransientCommunicationFailure",
        "expirationTime": "2020-06-16T00:25:40.914Z",
        "delayedRecipients": [
            {
                "emailAddress": ADDRESS,
                "status": "4.4.1",
                "diagnosticCode": "smtp; 421 4.4.1 Unable to connect to remote host",
            }
        ],
    },
}
OF_NO_ARRIVAL = [
    DELAYED,
    {"eventType": "Send", "mail": MAIL, "send": {}},
    {"eventType": "Open", "mail": MAIL, "open": {"ipAddress": "192.0.2.1", "timestamp": "2017-08-09T22:00:19.652Z"}},
    {"eventType": "Click", "mail": MAIL, "click": {"link": "http://example.com"}},
    {"eventType": "Subscription", "mail": MAIL, "subscription": {"contactList": "ContactListName"}},
    {"EventType": "EndpointCreated", "Service": "SNS", "EndpointArn": GCM, "Time": "2025-09-30T11:31:53.650Z"},
]
SES_IS_THERE = "Successfully validated SNS topic for Amazon SES event publishing."


# Every kind of receipt.
RECEIPTS: list[dict[str, Any]] = [
    PUSHED,
    PUSH_FAILED,
    SMS_FAILED,
    APPLICATION_EVENT,
    DELIVERED,
    BOUNCED,
    COMPLAINED,
    REJECTED,
    NOT_RENDERED,
    DELAYED,
]


def of_logs(*lines: str, kind: str = "DATA_MESSAGE") -> dict[str, Any]:
    """Return the event with which CloudWatch Logs invokes a subscribed function."""
    document = {
        "messageType": kind,
        "owner": "111122223333",
        "logGroup": "sns/us-east-2/111122223333/app/GCM/app",
        "logStream": "c23e42de",
        "subscriptionFilters": ["receipts"],
        "logEvents": [
            {"id": str(place), "timestamp": 1422313659540 + place, "message": line} for place, line in enumerate(lines)
        ],
    }
    return {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(document).encode())).decode()}}


def of_sns(*messages: str) -> dict[str, Any]:
    """Return the event with which SNS invokes a subscribed function."""
    return {
        "Records": [
            {
                "EventSource": "aws:sns",
                "EventVersion": "1.0",
                "EventSubscriptionArn": "arn:aws:sns:us-east-2:111122223333:receipts:21be56ed",
                "Sns": {
                    "Type": "Notification",
                    "MessageId": "95df01b4-ee98-5cb9-9903-4c221d41eb5e",
                    "TopicArn": "arn:aws:sns:us-east-2:111122223333:receipts",
                    "Subject": "DeliveryFailure event for app app (GCM)",
                    "Message": message,
                    "Timestamp": "2025-09-30T11:31:53.693Z",
                    "SignatureVersion": "1",
                    "Signature": "EXAMPLE",
                    "SigningCertUrl": "EXAMPLE",
                    "UnsubscribeUrl": "EXAMPLE",
                    "MessageAttributes": {},
                },
            }
            for message in messages
        ]
    }


def of_event_bridge(detail: dict[str, Any]) -> dict[str, Any]:
    """Return the event with which EventBridge invokes a rule's target."""
    return {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": "Email Bounced",
        "source": "aws.ses",
        "account": "123456789012",
        "time": "2024-08-05T00:41:02Z",
        "region": "us-east-1",
        "resources": ["arn:aws:ses:us-east-1:123456789012:configuration-set/ConfigSet"],
        "detail": detail,
    }


NUMBER = "+4915123456789"


def of_sms(kind: str, **detail: Any) -> dict[str, Any]:
    """Return EventBridge's event about an SMS with the message id `m`."""
    return {
        "version": "0",
        "detail-type": "Text Message Delivery Status Updated",
        "source": "aws.sms-voice",
        "resources": [],
        "detail": {
            "eventType": kind,
            "eventVersion": "1.0",
            "eventTimestamp": 1_501_940_000_000,
            "isFinal": True,
            "originationPhoneNumber": "Club",
            "isoCountryCode": "DE",
            "messageId": "m",
            "messageEncoding": "GSM",
            "totalMessageParts": 1,
            "totalMessagePrice": 0.05,
            **detail,
        },
    }


def of_answer(text: str, *, at_ms: int = 1_700_000_000_000, **fields: Any) -> dict[str, Any]:
    """Return the event with which SNS delivers a recipient's answer to an SMS, published at that time.

    Source: docs.aws.amazon.com/sms-voice/latest/userguide/two-way-sms-payload.html
    """
    message = {
        "originationNumber": NUMBER,
        "destinationNumber": ANSWERED_AT,
        "messageKeyword": "KEYWORD_111122223333",
        "messageBody": text,
        "inboundMessageId": "cae173d2-66b9-564c-8309-21f858e9fb84",
        "previousPublishedMessageId": "",
        **fields,
    }
    event = of_sns(json.dumps(message))
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    event["Records"][0]["Sns"]["Timestamp"] = at.replace("+00:00", "Z")
    return event
