// What a model does besides talking: cards of its calls.
import { html, useState } from '../lib/html.js';
import { Badge, Trouble, bytes, took, Pre } from '../lib/ui.js';
import { Json } from '../lib/json.js';

const kinds = /** @type {Record<string, string>} */ ({
  ok: 'good',
  approved: 'good',
  running: 'busy',
  'asked for': 'busy',
  waiting: 'warn',
  failed: 'bad',
  denied: 'bad',
  refused: 'bad',
  cancelled: 'warn',
  interrupted: 'bad',
  aborted: 'warn',
  lost: 'bad',
  degraded: 'warn',
  retry: 'warn',
  warning: 'warn',
  budget: 'warn',
  steps: 'warn',
  loop: 'warn',
});

/** @param {string} state */
export const kindOf = (state) => kinds[state] || 'calm';

/** What a tool said: its text as text, anything else as a tree. @param {{data: any}} props */
export function Result({ data }) {
  if (data === undefined || data === null) return null;
  if (Object.keys(data).length === 1 && typeof data.text === 'string')
    return html`<${Pre} data-testid="result">${data.text}<//>`;
  return html`<div data-testid="result"><${Json} value=${data} /></div>`;
}

/** One call. @param {{item: any}} props */
export function Card({ item }) {
  const over = item.data !== undefined;
  const [shown, setShown] = useState(false);
  const p = item.progress;
  return html`<article class="call" data-testid="call" data-tool=${item.tool} data-state=${item.state}>
    <details open=${shown} onToggle=${(
    /** @type {any} */ e,
  ) => {
    if (e.target === e.currentTarget) setShown(e.currentTarget.open);
  }}>
    <summary data-testid="call-head"><span class="mono">${item.tool || ''}</span> <${Badge} kind=${kindOf(item.state)}>
    ${item.state}<//>${item.edited ? html` <${Badge} kind="warn">arguments edited<//>` : null}
      ${over && item.state !== 'interrupted' ? html` <span class="soft nowrap" data-testid="took">
      ${item.took ? took(item.took * 1000) : '< 1 ms'}${item.bytes ? ' · ' + bytes(item.bytes) : ''}</span>` : null}
      ${p && !over ? html` <span class="soft">
      ${p.total ? Math.round((100 * p.progress) / p.total) + ' %' : p.progress}${p.message ? ' ' + p.message : ''}</span>` : null}
      </summary>
    ${
      shown
        ? html`<h3>Arguments</h3><div data-testid="arguments"><${Json} value=${item.args ?? {}} /></div>
      ${over ? html`<h3>Result</h3>${item.isError && item.message ? html`<${Trouble} error=${{ message: item.message }}
      />` : null}<${Result} data=${item.data} />` : null}
      ${item.saved ? html`<p>Kept as <code>@${item.saved}</code></p>` : null}`
        : null
    }</details></article>`;
}
