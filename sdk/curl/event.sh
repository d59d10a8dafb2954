curl -s -X POST "$MASSCOMM_API_URL/v1/events" -H "x-api-key: $MASSCOMM_API_KEY" -H 'Content-Type: application/json' \
     -d '{"events": [{"event_id": "match-4711", "type": "match.finished", "club_id": 1, "data": {"goals": [2, 1]}}]}'
