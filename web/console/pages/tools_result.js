// What came of a call: as a tree, as it came, as a person would read it, and
// beside another.
import { html, useState, useMemo, signal } from '../lib/html.js';
import { Badge, Copy, bytes, Pre, Scroll } from '../lib/ui.js';
import { Tree } from '../lib/json.js';
import { exact } from '../lib/jsontext.js';
import { Markdown } from '../lib/markdown.js';

/** @typedef {{tool: string, args: string, status: number, text: string, ms: number, at: number}} Result */

/** The result that others are compared with. */
export const held = signal(/** @type {Result|null} */ (null));

const longest = 200_000; // characters that are shown

/** @param {string} text */
function parsed(text) {
  try {
    return exact(text);
  } catch {
    return undefined;
  }
}

/** Whether the call was made and the tool did not say no. @param {Result} r */
export function good(r) {
  return r.status === 200 && parsed(r.text)?.success === true;
}

/** @param {{result: Result}} props */
export function Shown({ result }) {
  const [how, setHow] = useState('tree');
  // Once for each result: it may be megabytes, and this is drawn again with every key in the form.
  const { whole, fine } = useMemo(() => ({ whole: parsed(result.text), fine: good(result) }), [result]);
  const other = held.value;
  const ways = ['tree', 'rendered', 'raw', ...(other && other !== result ? ['compare'] : [])];
  const at = ways.includes(how) ? how : 'tree';
  return html`<section class="result" aria-label="Result" data-testid="result" aria-live="polite"><div class="bar">
    <${Badge} kind=${fine ? 'good' : 'bad'}>${fine ? 'success' : whole?.code || result.status}<//>
      <span data-testid="timing">${result.ms < 10 ? result.ms.toFixed(1) : Math.round(result.ms)} ms</span><span class="soft">
      ${bytes(result.text.length)}</span>
      <button type="button" class="small" data-testid="hold" aria-pressed=${other === result} onClick=${() => {
        held.value = other === result ? null : result;
      }}>${other === result ? 'Held' : 'Hold to compare'}</button></div>
    ${whole && !whole.success ? html`<div class="trouble" role="alert" data-testid="refusal"><strong>
    ${said(whole.error) || whole.message || `the hub answered ${result.status}`}</strong>
    ${whole.message && said(whole.error) && whole.message !== said(whole.error) ? html`<span>${whole.message}</span>` : null}
    </div>` : null}
    ${whole?.success && whole.message ? html`<p class="soft">${whole.message}</p>` : null}
    <div class="bar"><div class="tabs" role="tablist" aria-label="Result as">
    ${ways.map((w) => html`<button type="button" role="tab" aria-selected=${at === w} data-testid=${'as-' + w}
    onClick=${() => setHow(w)}>${w}</button>`)}</div>
      <${Copy} text=${result.text} /></div>
    <div class="json" data-testid="shown">${
      at === 'tree'
        ? html`<${Tree} value=${whole === undefined ? result.text : whole?.success ? whole.data : whole} />`
        : at === 'rendered'
          ? html`<${Rendered} data=${whole?.success ? whole.data : (whole ?? result.text)} />`
          : at === 'compare' && other
            ? html`<${Compare} one=${other} two=${result} />`
            : html`<${Pre}>${cut(result.text)}<//>`
    }</div></section>`;
}

/** What an envelope says went wrong. @param {any} error */
function said(error) {
  return typeof error === 'string' ? error : (error?.message ?? (error ? JSON.stringify(error) : ''));
}

/** @param {string} text */
function cut(text) {
  return text.length > longest ? text.slice(0, longest) + '\n… cut here; Copy has all of it' : text;
}

/** A result as a person would read it: texts as texts, pictures as pictures. @param {{data: any}} props */
function Rendered({ data }) {
  const blocks = Array.isArray(data?.content)
    ? data.content
    : Array.isArray(data) && data.every((b) => b && typeof b === 'object' && typeof b.type === 'string')
      ? data
      : null;
  if (blocks) return html`${blocks.slice(0, 200).map((/** @type {any} */ b) => html`<${Block} block=${b} />`)}`;
  if (typeof data === 'string') return html`<${Markdown} text=${cut(data)} />`;
  return html`<${Pre}>${cut(JSON.stringify(data, null, 2) ?? '')}<//>`;
}

const pictures = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** A picture that a browser shows without running anything. @param {{type: string, data: string}} props */
function Picture({ type, data }) {
  return html`<img class="picture" alt="Picture that the tool returned" src=${`data:${type};base64,${data}`} />`;
}

/** @param {{block: any}} props */
function Block({ block }) {
  if (block.type === 'text') return html`<${Markdown} text=${cut(String(block.text))} />`;
  if (block.type === 'image' && pictures.includes(block.mimeType) && typeof block.data === 'string')
    return html`<${Picture} type=${block.mimeType} data=${block.data} />`;
  if (block.type === 'resource_link') return html`<${Resource} of=${block} />`;
  if (block.type === 'resource' && block.resource && typeof block.resource === 'object')
    return html`<${Resource} of=${block.resource} />`;
  return html`<${Pre}>${cut(JSON.stringify(block, null, 2))}<//>`;
}

/** A resource, or where it is. Only what a browser would fetch as a page is a link. @param {{of: any}} props */
function Resource({ of }) {
  const uri = String(of.uri ?? '');
  return html`<figure class="resource" data-testid="resource"><figcaption><strong>${of.title || of.name || 'Resource'}
    </strong> ${/^https?:\/\//i.test(uri) ? html`<a href=${uri} target="_blank" rel="noopener noreferrer nofollow">${uri}
    </a>` : html`<code>${uri}</code>`} <span class="soft">
    ${[of.mimeType, of.size == null ? '' : bytes(of.size)].filter(Boolean).join(' · ')}</span></figcaption>
    ${of.description ? html`<p>${of.description}</p>` : null}
    ${typeof of.text !== 'string' ? null : /markdown/.test(of.mimeType || '') ? html`<${Markdown} text=${cut(of.text)}
    />` : html`<${Pre}>${cut(of.text)}<//>`}
    ${typeof of.blob !== 'string' ? null : pictures.includes(of.mimeType) ? html`<${Picture} type=${of.mimeType} data=${of.blob}
    />` : html`<p class="soft">${bytes(Math.floor(of.blob.length * 0.75))} of data</p>`}</figure>`;
}

/** @param {Result} r */
function lines(r) {
  const whole = parsed(r.text);
  const data = whole?.success ? whole.data : whole;
  const text = typeof data === 'string' ? data : data === undefined ? r.text : JSON.stringify(data, null, 2);
  return text.split('\n').slice(0, 1500);
}

/**
 * The lines of two texts, with those that only one has. Long texts are compared line by line, which takes no time.
 * @param {string[]} a @param {string[]} b @returns {{a?: string, b?: string}[]}
 */
export function diff(a, b) {
  if (a.length * b.length > 400_000)
    return Array.from({ length: Math.max(a.length, b.length) }, (_, i) => ({ a: a[i], b: b[i] }));
  const n = a.length,
    m = b.length,
    long = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--)
      long[i][j] = a[i] === b[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
  const out = [];
  for (let i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && a[i] === b[j]) out.push({ a: a[i++], b: b[j++] });
    else if (j >= m || (i < n && long[i + 1][j] >= long[i][j + 1])) out.push({ a: a[i++] });
    else out.push({ b: b[j++] });
  }
  return out;
}

/** @param {{one: Result, two: Result}} props */
function Compare({ one, two }) {
  const rows = diff(lines(one), lines(two));
  const changed = rows.filter((r) => r.a !== r.b).length;
  const head = (/** @type {Result} */ r) =>
    `${r.tool} ${r.args.replace(/\s+/g, ' ').slice(0, 80)} · ${Math.round(r.ms)} ms`;
  return html`<p class="soft" data-testid="differ">${changed ? `${changed} lines differ` : 'They are the same.'}</p>
    <${Scroll} class="scroll" label="Comparison"><table class="diff"><thead><tr><th scope="col">Held: ${head(one)}</th>
    <th scope="col">This: ${head(two)}</th></tr></thead>
    <tbody>${rows.map((r) => html`<tr class=${r.a === r.b ? '' : 'differs'}><td>
    ${r.a === r.b ? '' : r.a === undefined ? '' : '− '}${r.a ?? ''}</td><td>
    ${r.a === r.b ? '' : r.b === undefined ? '' : '+ '}${r.b ?? ''}</td></tr>`)}</tbody></table><//>`;
}
