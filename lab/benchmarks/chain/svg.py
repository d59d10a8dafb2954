"""A small writer of SVG."""

from xml.sax.saxutils import escape

FONT = "system-ui, sans-serif"


class Drawing:
    """A drawing of shapes, in the order in which they were added; coordinates are pixels from the upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self._size = width, height
        self._shapes: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, fill: str, title: str = "") -> None:
        """Draw a filled rectangle. A browser shows `title` as its tooltip."""
        inner = f"<title>{escape(title)}</title>" if title else ""
        self._shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}">{inner}</rect>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = "#333") -> None:
        self._shapes.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>')

    def text(self, x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", bold: bool = False) -> None:
        """Write a text at its baseline. `anchor` is start, middle or end."""
        weight = ' font-weight="bold"' if bold else ""
        self._shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'
        )

    def render(self) -> str:
        width, height = self._size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
            f' height="{height:g}" font-family="{FONT}">'
        )
        return "\n".join(
            [head, f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>', *self._shapes, "</svg>\n"]
        )
