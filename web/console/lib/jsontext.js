// JSON as text, where decoding would lose something: large numbers, and where a
// value stands. All of it takes text that JSON.parse has accepted.

/** The first place from i on that is no white space. @param {string} text @param {number} i */
function skip(text, i) {
  while (i < text.length && ' \t\n\r'.includes(text[i])) i++;
  return i;
}

/** Where the value that begins at i ends. @param {string} text @param {number} i */
function end(text, i) {
  if (text[i] === '"') {
    for (i++; i < text.length && text[i] !== '"'; i++) if (text[i] === '\\') i++;
    return i + 1;
  }
  if (text[i] !== '{' && text[i] !== '[') {
    while (i < text.length && !' \t\n\r,]}'.includes(text[i])) i++;
    return i;
  }
  for (let depth = 0; i < text.length; i++) {
    if (text[i] === '"') i = end(text, i) - 1;
    else if (text[i] === '{' || text[i] === '[') depth++;
    else if ((text[i] === '}' || text[i] === ']') && --depth === 0) return i + 1;
  }
  return text.length;
}

/** Where the member or element of the value at i begins; -1 if it has none of that name. @param {string} text @param {number} i @param {string} name */
function child(text, i, name) {
  const object = text[i] === '{';
  if (!object && text[i] !== '[') return -1;
  i = skip(text, i + 1);
  for (let n = 0; i < text.length && text[i] !== '}' && text[i] !== ']'; n++) {
    let key = String(n);
    if (object) {
      const after = end(text, i);
      key = JSON.parse(text.slice(i, after));
      i = skip(text, skip(text, after) + 1); // past the colon
    }
    if (key === name) return i;
    i = skip(text, end(text, i));
    if (text[i] === ',') i = skip(text, i + 1);
  }
  return -1;
}

/**
 * From where to where the value at a JSON pointer stands, or the nearest around it that is there.
 * @param {string} text @param {string} pointer @returns {{from: number, to: number, found: boolean}}
 */
export function locate(text, pointer) {
  let from = skip(text, 0),
    found = true;
  for (const part of pointer.split('/').slice(1)) {
    const next = child(text, from, part.replace(/~1/g, '/').replace(/~0/g, '~'));
    if (next < 0) {
      found = false;
      break;
    }
    from = next;
  }
  return { from, to: end(text, from), found };
}

/** The text of the value at a pointer; undefined if there is none. @param {string} text @param {string} pointer */
export function part(text, pointer) {
  const at = locate(text, pointer);
  return at.found ? text.slice(at.from, at.to) : undefined;
}

/** The same JSON with a member or element a line; names, numbers and texts stay as they are written. @param {string} text */
export function indent(text) {
  let out = '',
    depth = 0;
  const line = () => '\n' + '  '.repeat(depth);
  for (let i = skip(text, 0); i < text.length; i = skip(text, i)) {
    const c = text[i];
    if (c === '{' || c === '[') {
      const next = skip(text, i + 1);
      if (text[next] === '}' || text[next] === ']') {
        out += c + text[next];
        i = next + 1;
        continue;
      }
      depth++;
      out += c + line();
      i++;
    } else if (c === '}' || c === ']') {
      depth--;
      out += line() + c;
      i++;
    } else if (c === ',') {
      out += c + line();
      i++;
    } else if (c === ':') {
      out += ': ';
      i++;
    } else {
      const to = end(text, i);
      out += text.slice(i, to);
      i = to;
    }
  }
  return out;
}

/** The line, from 1, in which a place of a text is. @param {string} text @param {number} at */
export function lineOf(text, at) {
  return text.slice(0, at).split('\n').length;
}

const json = /** @type {any} */ (JSON);

/**
 * What a JSON text says. Numbers that are too long for this language stay as
 * they are written, where the browser can do that: they are shown and sent on
 * as they came.
 * @param {string} text @returns {any}
 */
export function exact(text) {
  if (!json.rawJSON || !/\d{16}/.test(text)) return JSON.parse(text);
  return json.parse(text, (/** @type {string} */ _, /** @type {any} */ v, /** @type {any} */ at) =>
    typeof v === 'number' && at?.source && at.source.replace(/\D/g, '').length > 15 ? json.rawJSON(at.source) : v,
  );
}

/** A number that stayed as it was written, or undefined. @param {any} v @returns {string|undefined} */
export const longNumber = (v) => (json.isRawJSON?.(v) ? v.rawJSON : undefined);
