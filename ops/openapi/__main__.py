import json
import sys

from ops.openapi.document import document

sys.stdout.write(json.dumps(document(), indent=2, ensure_ascii=False) + "\n")
