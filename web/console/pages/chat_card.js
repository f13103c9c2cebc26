// What a model does besides talking: cards of its calls, and the questions that
// a person has to answer.
import { html, useState, useEffect, useRef } from '../lib/html.js';
import { Badge, Button, Trouble, bytes, took, Pre } from '../lib/ui.js';
import { Json } from '../lib/json.js';

const kinds = /** @type {Record<string, string>} */ ({ ok: 'good', approved: 'good', running: 'busy', 'asked for': 'busy', waiting: 'warn', failed: 'bad', denied: 'bad', refused: 'bad', cancelled: 'warn', interrupted: 'bad', aborted: 'warn', lost: 'bad', degraded: 'warn', retry: 'warn', warning: 'warn', budget: 'warn', steps: 'warn', loop: 'warn' });

/** @param {string} state */
export const kindOf = (state) => kinds[state] || 'calm';

/** What a tool said: its text as text, anything else as a tree. @param {{data: any}} props */
export function Result({ data }) {
  if (data === undefined || data === null) return null;
  if (Object.keys(data).length === 1 && typeof data.text === 'string') return html`<${Pre} data-testid="result">${data.text}<//>`;
  return html`<div data-testid="result"><${Json} value=${data} /></div>`;
}

/** One call. @param {{item: any}} props */
export function Card({ item }) {
  const over = item.data !== undefined;
  const [shown, setShown] = useState(false);
  const p = item.progress;
  return html`<article class="call" data-testid="call" data-tool=${item.tool} data-state=${item.state}><details open=${shown} onToggle=${(/** @type {any} */ e) => { if (e.target === e.currentTarget) setShown(e.currentTarget.open); }}>
    <summary data-testid="call-head"><span class="mono">${(item.tool || '')}</span> <${Badge} kind=${kindOf(item.state)}>${item.state}<//>${item.edited ? html` <${Badge} kind="warn">arguments edited<//>` : null}
      ${over && item.state !== 'interrupted' ? html` <span class="soft nowrap" data-testid="took">${item.took ? took(item.took * 1000) : '< 1 ms'}${item.bytes ? ' · ' + bytes(item.bytes) : ''}</span>` : null}
      ${p && !over ? html` <span class="soft">${p.total ? Math.round(100 * p.progress / p.total) + ' %' : p.progress}${p.message ? ' ' + p.message : ''}</span>` : null}</summary>
    ${shown ? html`<h3>Arguments</h3><div data-testid="arguments"><${Json} value=${item.args ?? {}} /></div>
      ${over ? html`<h3>Result</h3>${item.isError && item.message ? html`<${Trouble} error=${{ message: item.message }} />` : null}<${Result} data=${item.data} />` : null}
      ${item.saved ? html`<p>Kept as <code>@${item.saved}</code></p>` : null}` : null}</details></article>`;
}

/** @param {{until: string}} props */
function Left({ until }) {
  const [, tick] = useState(0);
  useEffect(() => { const t = setInterval(() => tick((n) => n + 1), 1000); return () => clearInterval(t); }, []);
  const s = Math.max(0, Math.round((Date.parse(until) - Date.now()) / 1000));
  return html`<span class="soft">denied by itself in ${s >= 60 ? Math.floor(s / 60) + ' min ' : ''}${s % 60} s</span>`;
}

/** A call that waits for a person. @param {{approval: any, decide: (p: any) => Promise<any>}} props */
export function Approval({ approval: a, decide }) {
  const [edited, setEdited] = useState(/** @type {string|null} */ (null));
  const [remember, setRemember] = useState('once');
  const reason = useRef(/** @type {any} */ (null));
  /** @type {any} */ let args;
  let wrong = '';
  if (edited !== null) {
    try { args = JSON.parse(edited); if (args === null || typeof args !== 'object' || Array.isArray(args)) wrong = 'The arguments have to be one JSON object.'; } catch (e) { wrong = String(/** @type {any} */ (e).message); }
  }
  const words = () => (reason.current.value.trim() ? { reason: reason.current.value.trim() } : {});
  return html`<article class="approval" role="group" aria-label=${'Allow ' + a.tool + '?'} data-testid="approval">
    <h3>Allow <span class="mono">${(a.tool || a.kind)}</span>? <${Left} until=${a.expires} /></h3>
    ${a.reason ? html`<p>${a.reason}</p>` : null}${a.client ? html`<p class="soft">Asked by ${a.client}</p>` : null}
    ${edited === null ? html`<div data-testid="approval-args"><${Json} value=${a.args ?? {}} /></div>` : html`<label>Arguments<textarea rows="8" data-testid="approval-edit" value=${edited} onInput=${(/** @type {any} */ e) => setEdited(e.target.value)}></textarea></label>${wrong ? html`<${Trouble} error=${{ message: wrong }} />` : null}`}
    ${a.sent ? html`<details><summary>With what the references stand for</summary><${Json} value=${a.sent} /></details>` : null}
    <div class="bar"><label>Hold it for <select data-testid="remember" value=${remember} onChange=${(/** @type {any} */ e) => setRemember(e.target.value)}>
        ${[['once', 'this call'], ['session', 'this tool in this session'], ['tool', 'this tool'], ['server', 'all tools of the server']].map(([v, t]) => html`<option value=${v}>${t}</option>`)}</select></label>
      <label>Words to the model <input ref=${reason} data-testid="reason" /></label></div>
    <div class="bar">${edited === null
      ? html`<${Button} class="primary" data-testid="approve" onClick=${() => decide({ decision: 'approve', remember, ...words() })}>Approve<//><${Button} data-testid="edit" onClick=${() => setEdited(JSON.stringify(a.args ?? {}, null, 2))}>Edit<//>`
      : html`<${Button} class="primary" data-testid="approve-edited" disabled=${wrong !== ''} onClick=${() => decide({ decision: 'edit', args, remember, ...words() })}>Approve as edited<//><${Button} onClick=${() => setEdited(null)}>As it was<//>`}
      <${Button} danger data-testid="deny" onClick=${() => decide({ decision: 'deny', remember, ...words() })}>Deny<//></div></article>`;
}
