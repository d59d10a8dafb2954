"""The page of the documentation about each command: `--help` and errors lead to it."""

import os

# By the first word of a command; commands that are not named have the page of the command line.
_PAGES = {
    "up": "docs/quick-start.md",
    "doctor": "docs/quick-start.md#problems",
    "demo": "docs/quick-start.md",
    "send": "docs/sending.md",
    "sends": "docs/sending.md#following-a-send",
    "trace": "docs/sending.md#following-a-send",
    "inbox": "docs/quick-start.md",
    "audience": "docs/audiences.md",
    "categories": "docs/operations.md#add-a-category",
    "preferences": "docs/preferences.md",
    "template": "docs/templates.md",
    "webhooks": "docs/webhooks.md",
    "events": "docs/event-sources.md",
    "devices": "docs/operations.md#devices",
    "suppressions": "docs/operations.md#suppressions",
    "keys": "docs/access.md#api-keys",
    "audit": "docs/access.md#audit-log",
    "dead-letters": "docs/operations.md#dead-letters",
    "alarms": "docs/operations.md#alarms",
    "query": "docs/internals/metrics-job.md",
    "recompute-check": "docs/internals/metrics-job.md",
    "source": "docs/your-data.md",
    "erase": "docs/personal-data.md#erasing-a-person",
    "upgrade": "docs/operations.md#upgrade",
    "preflight": "docs/deploying.md#checklist",
    "images": "docs/deploying.md#deploying",
    "smoke": "docs/deploying.md#deploying",
    "destroy": "docs/deploying.md#removing-an-environment",
}
_EVERY_COMMAND = "docs/cli.md"


def read_on(command: str | None) -> str:
    """Return a line that leads to the page about a command: its file, and its address where the API is."""
    page = _PAGES.get(command or "", _EVERY_COMMAND)
    api = os.environ.get("MASSCOMM_API_URL") or f"http://127.0.0.1:{os.environ.get('MASSCOMM_PORT_GATEWAY', 8080)}"
    return f"Read on: {page}, or {api.rstrip('/')}/{page.replace('.md', '.html')}"


def epilogue(command: str | None) -> str:
    r"""Return `read_on` for the end of a command's help. The \b keeps typer from wrapping the line, in which an address
    would be cut at a hyphen.
    """
    return f"\b\n{read_on(command)}"
