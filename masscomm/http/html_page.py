"""A page of HTML without scripts, in the design of the console: its colours are those of web/src/design/tokens.css."""

import html

# Text of a style element. A page's Content-Security-Policy permits it by its hash or by a nonce.
STYLE = (
    ":root{color-scheme:light dark}"
    "*{box-sizing:border-box}"
    "body{margin:0;padding:12vh 1rem 2rem;background:light-dark(#f5f6f9,#10131a);color:light-dark(#171b24,#e8ebf2);"
    'font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}'
    "main{max-width:28rem;margin:0 auto;padding:2rem;background:light-dark(#ffffff,#181c25);"
    "border:1px solid light-dark(#dce0e8,#2e3543);border-radius:.625rem;overflow-wrap:anywhere}"
    "h1{margin:0 0 .5rem;font-size:1.625rem;line-height:1.25;letter-spacing:-.015em}"
    "p{margin:0 0 1.5rem}p:last-child{margin:0}"
    ".muted{margin:0 0 1rem;color:light-dark(#586073,#a0a9bb);font-size:.8125rem}"
    "form{display:grid;gap:.75rem}"
    "button{min-height:2.75rem;padding:.5rem 1rem;border:1px solid light-dark(#2a56c6,#8eaefc);border-radius:.375rem;"
    "background:light-dark(#2a56c6,#8eaefc);color:light-dark(#ffffff,#0d1530);font:inherit;font-weight:600;cursor:pointer}"
    "button:focus-visible{outline:2px solid light-dark(#2a56c6,#8eaefc);outline-offset:2px}"
    "button.choice{display:flex;justify-content:space-between;align-items:center;gap:1rem;background:none;color:inherit;"
    "border-color:light-dark(#858c9b,#6c7689)}"
    "button.choice:hover{background:light-dark(#eef0f5,#222733)}"
    "button.choice span{color:light-dark(#586073,#a0a9bb);font-weight:400}"
)


def html_page(title: str, content: str, *, above: str = "", language: str = "en", nonce: str | None = None) -> str:
    """Return a page.

    Args:
        title: The title of the page, as text.
        content: The HTML below the title.
        above: A line above the title, as text: whose page it is.
        language: The language of the texts.
        nonce: The nonce of the policy that permits the style; None if the policy has its hash.
    """
    style = "<style>" if nonce is None else f'<style nonce="{nonce}">'
    line = f'<p class="muted">{html.escape(above)}</p>' if above else ""
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title>{style}{STYLE}</style></head>"
        f"<body><main>{line}<h1>{html.escape(title)}</h1>{content}</main></body></html>\n"
    )
