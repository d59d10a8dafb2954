curl -s -X POST "$MASSCOMM_API_URL/v1/dry-runs" -H "x-api-key: $MASSCOMM_API_KEY" -H 'Content-Type: application/json' \
     -d '{"type": "announcement", "club_id": 1, "to_users": [42, 43], "data": {"title": "Hello", "body": "It works."}}'
