curl -s "$MASSCOMM_API_URL/v1/sends/$1" -H "x-api-key: $MASSCOMM_API_KEY"
curl -s "$MASSCOMM_API_URL/v1/sends/$1/recipients" -H "x-api-key: $MASSCOMM_API_KEY"
