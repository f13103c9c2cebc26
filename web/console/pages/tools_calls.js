// Calls as they are kept and written down: history, saved ones, and the same
// call for a shell.
import { html, useState } from '../lib/html.js';
import { kept } from '../lib/keep.js';
import { Empty, Badge, Time, took, Copy, Pre } from '../lib/ui.js';

/** @typedef {{tool: string, args: string, session: string, saveAs: string, at: number, name?: string, ok?: boolean, us?: number}} Call */

const longest = 64 << 10; // arguments that are kept

export const history = kept('history', 60);
export const saved = kept('saved', 60);

/** Remembers that a call was made. @param {Call} call */
export function remember(call) {
  if (call.args.length <= longest) history.add(call);
}

/** @param {string} text */
const shell = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

/** One line of JSON, if it is JSON. @param {string} args */
function line(args) {
  // As it was written, but for breaks between lines: numbers must stay what they are.
  const text = args.trim() || '{}';
  return text.includes('\n') ? text.replace(/\n\s*/g, ' ') : text;
}

/** @param {Call} c */
function asCommand(c) {
  return `stoa call ${shell(c.tool)} ${shell(line(c.args))}${c.session ? ' --session ' + shell(c.session) : ''}${c.saveAs ? ' --save-as ' + shell(c.saveAs) : ''}`;
}

/** @param {Call} c */
function asCurl(c) {
  return `curl -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d ${shell(line(c.args))} ${shell(location.origin + path(c))}`;
}

/** The address that a call is posted to. @param {Call} c */
export function path(c) {
  const q = new URLSearchParams();
  if (c.session) q.set('session', c.session);
  if (c.saveAs) q.set('saveAs', c.saveAs);
  const text = q.toString();
  return '/api/tools/' + encodeURIComponent(c.tool) + (text ? '?' + text : '');
}

/** The call for a shell. @param {{call: Call}} props */
export function Commands({ call }) {
  return html`<details class="commands"><summary data-testid="commands">As a command</summary>
    <div class="bar"><${Copy} text=${asCommand(call)} label="Copy as stoa call" /></div><${Pre} data-testid="as-stoa">
      ${asCommand(call)}<//>
    <div class="bar"><${Copy} text=${asCurl(call)} label="Copy as curl" /></div><${Pre} data-testid="as-curl">${asCurl(call)}<//>
    <p class="soft">curl takes the token from <code>$TOKEN</code>: it is the file <code>token</code> of the data folder.</p>
    </details>`;
}

/** The calls of a tool that this browser keeps. @param {{call: Call, onLoad: (c: Call) => void}} props */
export function Calls({ call, onLoad }) {
  const [name, setName] = useState('');
  const mine = (/** @type {Call} */ c) => c.tool === call.tool;
  const save = () => {
    saved.remove((c) => mine(c) && c.name === name.trim());
    saved.add({ ...call, name: name.trim(), at: Date.now() });
    setName('');
  };
  const before = history.list.value.filter(mine),
    named = saved.list.value.filter(mine);
  return html`<details class="calls" open=${named.length > 0}>
    <summary data-testid="calls">Saved calls and history (${named.length} + ${before.length})</summary>
    <div class="bar"><input aria-label="Name to save this call under" placeholder="name" data-testid="save-name" value=${name}
    onInput=${(/** @type {any} */ e) => setName(e.target.value)} />
    <button type="button" data-testid="save" disabled=${!name.trim() || call.args.length > longest}
    onClick=${save}>Save this call</button>
      ${before.length ? html`<button type="button" class="small"
      onClick=${() => history.remove(mine)}>Clear history</button>` : null}</div>
    <${List} of=${named} testid="saved" onLoad=${onLoad}
    onRemove=${(/** @type {Call} */ c) => saved.remove((x) => mine(x) && x.name === c.name)} />
    <${List} of=${before} testid="history" onLoad=${onLoad}
    onRemove=${(/** @type {Call} */ c) => history.remove((x) => mine(x) && x.at === c.at)} />
    ${!named.length && !before.length ? html`<${Empty}>None yet. They stay in this browser, with their arguments.<//>` : null}
    </details>`;
}

/** @param {{of: Call[], testid: string, onLoad: (c: Call) => void, onRemove: (c: Call) => void}} props */
function List({ of, testid, onLoad, onRemove }) {
  return html`<ul class="kept" data-testid=${testid}>${of.map(
    (
      c,
    ) => html`<li key=${c.at}><button type="button" class="plain" onClick=${() => onLoad(c)} title=${c.args.slice(0, 500)}>
      ${c.name ? html`<strong>${c.name}</strong>` : html`<${Time} at=${c.at} />`}
    ${c.ok === undefined ? null : html` <${Badge} kind=${c.ok ? 'good' : 'bad'}>${c.ok ? took(c.us ?? 0) : 'failed'}
    <//>`} <span class="mono clip">${c.args.slice(0, 120)}</span></button>
    <button type="button" class="small" aria-label=${'Forget ' + (c.name || 'this call')} onClick=${() => onRemove(c)}>×</button>
    </li>`,
  )}</ul>`;
}
