/**
 * A short name for a text, by which it is told from others: two interleaved 32-bit multiplicative hashes (FNV-1a's form).
 *
 * Not for secrets: `crypto.subtle` is missing on pages that are not served by HTTPS.
 */
export function hashOf(text: string): string {
  let a = 0x811c9dc5;
  let b = 0x1b873593;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b ^ unit, 0x85ebca6b);
    b ^= b >>> 13;
  }
  return [a, b].map(half => (half >>> 0).toString(16).padStart(8, '0')).join('');
}
