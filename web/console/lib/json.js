// JSON to look at: a tree that opens and closes, or the text itself. Whatever
// is in it is shown as text.
import { html, useState } from './html.js';
import { Copy, Pre } from './ui.js';
import { longNumber } from './jsontext.js';

const longest = 20_000; // characters of one text in a tree

/** A text of a tree; a browser stands still over one of megabytes. @param {string} text */
function leaf(text) {
  if (text.length <= longest) return JSON.stringify(text);
  return JSON.stringify(text.slice(0, longest)) + ` … ${(text.length - longest).toLocaleString()} more characters; Copy has all of them`;
}

/** @param {{value: any, name?: string, depth?: number}} props */
export function Tree({ value, name, depth = 0 }) {
  const [open, setOpen] = useState(depth < 2);
  const label = name === undefined ? null : html`<span class="key">${name}: </span>`;
  const long = longNumber(value);
  if (long) return html`<div class="leaf">${label}<span class="number">${long}</span></div>`;
  if (value === null || typeof value !== 'object') {
    return html`<div class="leaf">${label}<span class=${value === null ? 'null' : typeof value}>
      ${typeof value === 'string' ? leaf(value) : String(value)}</span></div>`;
  }
  const entries = Array.isArray(value) ? value.map((v, i) => [String(i), v]) : Object.entries(value);
  const sum = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (!entries.length) return html`<div class="leaf">${label}${Array.isArray(value) ? '[]' : '{}'}</div>`;
  const shown = entries.slice(0, 500);
  return html`<details class="tree" open=${open} onToggle=${(/** @type {any} */ e) => {
    if (e.target === e.currentTarget) setOpen(e.currentTarget.open);
  }}>
    <summary>${label}<span class="sum">${sum}</span></summary>
    ${open ? shown.map(([k, v]) => html`<${Tree} key=${k} name=${k} value=${v} depth=${depth + 1} />`) : null}
    ${open && entries.length > shown.length ? html`<div class="leaf">… ${entries.length - shown.length} more</div>` : null}
  </details>`;
}

/** JSON as a tree and as text. @param {{value: any, raw?: string}} props */
export function Json({ value, raw }) {
  const [how, setHow] = useState('tree');
  const text = raw ?? JSON.stringify(value, null, 2);
  return html`<div class="json"><div class="bar"><div class="tabs" role="tablist" aria-label="Shown as">
    ${['tree', 'raw'].map((k) => html`<button type="button" role="tab" aria-selected=${how === k} onClick=${() => setHow(k)}>${k}
    </button>`)}</div>
      <${Copy} text=${text} /></div>
    ${how === 'tree' ? html`<${Tree} value=${value} />` : html`<${Pre}>
    ${text.length > 200_000 ? text.slice(0, 200_000) + '\n… cut here; copy has all of it' : text}<//>`}</div>`;
}
