curl -s -X POST "$MASSCOMM_API_URL/v1/sends/$1/cancel" -H "x-api-key: $MASSCOMM_API_KEY"
