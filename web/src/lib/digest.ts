/** Return the SHA-256 of a text in hexadecimal digits. */
export async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// As in masscomm/domain/addresses.py: control and format characters, spaces, and what Unicode ignores by default.
const INVISIBLE = "[\\p{Cc}\\p{Cf}\\p{Z}\\p{Default_Ignorable_Code_Point}]+";
const INVISIBLE_AROUND = new RegExp(`^${INVISIBLE}|${INVISIBLE}$`, "gu");

/** Return the SHA-256 under which the suppression of an e-mail address is stored (masscomm/domain/ids.py). */
export async function addressId(address: string): Promise<string> {
  const [name, domain] = halves(address.replace(INVISIBLE_AROUND, "").toLowerCase());
  return sha256(`${name}@${ascii(domain)}`);
}

function halves(address: string): [string, string] {
  const at = address.lastIndexOf("@");
  return [address.slice(0, Math.max(0, at)), address.slice(at + 1)];
}

/** Return a domain without characters beyond ASCII. A text that is not a domain stays as it is. */
function ascii(domain: string): string {
  try {
    return new URL(`http://${domain}`).hostname || domain;
  } catch {
    return domain;
  }
}
