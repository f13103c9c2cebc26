// Text of others, made fit to be looked at: the one place for it. Markup needs
// nothing, since it is never taken for more than text. But there are characters
// that hide others, turn around what follows, or order a terminal about.
// html.js shows every text and every label by seen.

// Controls save tab and line feed, marks of direction, spaces and joiners of no
// width, and tags, which nobody sees and models read.
// prettier-ignore
const unseen = new RegExp([
  '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]',
  '[\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb]',
  '[\\u{e0000}-\\u{e007f}]',
].join('|'), 'gu');
const any = new RegExp(unseen.source, 'u');

// What a joiner may join: pictures that are made of several, and letters of the
// scripts that are written with it.
const joined = /(?:\p{Extended_Pictographic}\ufe0f?[\u{1f3fb}-\u{1f3ff}]?|[\u0600-\u0dff\u1000-\u109f\u1780-\u17ff])$/u;

/** The text with what cannot be seen made visible. @param {string} text */
export function seen(text) {
  if (!any.test(text)) return text;
  return text.replace(/\r\n/g, '\n').replace(unseen, (c, at, whole) => {
    const n = /** @type {number} */ (c.codePointAt(0));
    if ((n === 0x200c || n === 0x200d) && joined.test(whole.slice(Math.max(0, at - 5), at))) return c;
    return n < 0x20 ? String.fromCodePoint(0x2400 + n) : '⟨U+' + n.toString(16).toUpperCase().padStart(4, '0') + '⟩';
  });
}

/** Text for a terminal, without what moves its cursor and colours it. @param {string} text */
export function plain(text) {
  return text.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?/g, '');
}
