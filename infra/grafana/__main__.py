import json
import sys

from infra.grafana.dashboard import dashboard

sys.stdout.write(json.dumps(dashboard(), indent=2) + "\n")
