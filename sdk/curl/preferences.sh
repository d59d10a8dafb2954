curl -s -X PUT "$MASSCOMM_API_URL/v1/users/42/preferences" -H "x-api-key: $MASSCOMM_API_KEY" \
     -H 'Content-Type: application/json' -d '{"categories": {"news": {"push": false}}}'
