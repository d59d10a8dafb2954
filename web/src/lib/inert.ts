/** The HTML of an e-mail, made inert: it is shown with its styles, runs nothing and reads nothing. */

/** Elements that run, load or embed something, or that change the page. */
const DROPPED = "script, noscript, style, link, meta, base, title, iframe, frame, frameset, object, embed, applet, audio, video, source, track, template";
/** Attributes that name an address to load or to go to. */
const ADDRESSES = new Set(["src", "srcset", "href", "xlink:href", "background", "poster", "data", "action", "formaction", "ping", "cite", "longdesc"]);

/** A style that loads nothing. The frame's Content-Security-Policy refuses addresses that are written in another way. */
const withoutAddresses = (css: string): string => css.replace(/(?:url|image-set)\s*\(/gi, "blocked(");

/**
 * Show the HTML of an e-mail in a frame whose document is empty.
 *
 * The console's policy permits no inline styles, and a frame inherits it: styles are therefore set by the object model, which
 * the policy permits to a script of the console. The frame's sandbox permits no scripts, forms, windows or navigation of the page.
 */
export function showInert(frame: HTMLIFrameElement, html: string): void {
  const [page, view] = [frame.contentDocument, frame.contentWindow as (Window & typeof globalThis) | null];
  if (!page || !view) return;
  const read = new DOMParser().parseFromString(html, "text/html");
  const sheets = [...read.querySelectorAll("style")].map((element) => {
    const sheet = new view.CSSStyleSheet();
    sheet.replaceSync(withoutAddresses(element.textContent));
    return sheet;
  });
  read.querySelectorAll(DROPPED).forEach((element) => element.remove());
  const styles = new Map<Element, string>();
  for (const element of read.querySelectorAll("*")) {
    // A picture is not loaded: its alternative text is in its place.
    for (const address of ["href", "src"]) if (element.matches(`a[${address}], img[${address}]`)) element.setAttribute("title", element.getAttribute(address)!);
    for (const { name, value } of [...element.attributes]) {
      if (name === "style") styles.set(element, value);
      if (name === "style" || name.startsWith("on") || ADDRESSES.has(name)) element.removeAttribute(name);
    }
  }
  page.adoptedStyleSheets = sheets;
  page.body.replaceWith(page.adoptNode(read.body));
  for (const [element, css] of styles) if ("style" in element) (element as HTMLElement).style.cssText = withoutAddresses(css);
}
