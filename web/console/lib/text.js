// Text of others, made fit to be looked at. Markup needs nothing: it is never
// taken for more than text. But there are characters that hide others, turn
// around what follows, or order a terminal about.

// Controls without tab and line ends, those of the direction of text, and tags,
// which nobody sees and models read.
// prettier-ignore
const unseen = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]|[\u{e0000}-\u{e007f}]/gu;
const any = new RegExp(unseen.source, 'u');

/** The text with what cannot be seen made visible. @param {string} text */
export function seen(text) {
  if (!any.test(text)) return text;
  return text.replace(unseen, (c) => {
    const n = /** @type {number} */ (c.codePointAt(0));
    return n < 0x20 ? String.fromCodePoint(0x2400 + n) : '⟨U+' + n.toString(16).toUpperCase().padStart(4, '0') + '⟩';
  });
}

/** Text for a terminal, without what moves its cursor and colours it. @param {string} text */
export function plain(text) {
  return text.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?/g, '');
}
