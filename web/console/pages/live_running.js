// The calls that run now, each of which can be cancelled.
import { html } from '../lib/html.js';
import { api } from '../lib/api.js';
import { Button, Time, Trouble, useApi } from '../lib/ui.js';

const every = 2000; // milliseconds between two looks
const most = 50; // that are shown

export function RunningCalls() {
  const { data, error, again } = useApi(`/api/v1/calls?limit=${most}`, every);
  if (error) return html`<${Trouble} error=${error} />`;
  if (!data?.calls.length) return null;
  const cancel = async (/** @type {any} */ c) => {
    await api('/api/v1/calls/' + encodeURIComponent(c.call), { method: 'DELETE' });
    again();
  };
  return html`<section class="card" aria-label="Running calls" data-testid="running"><h2>Running calls</h2><ul>
    ${data.calls.map(
      (/** @type {any} */ c) => html`<li key=${c.call}><span class="mono">${c.upstream}:${c.tool}</span> <span class="soft">
      for ${c.agent ? `${c.agent}, ` : ''}${c.principal}, since <${Time} at=${c.since} /></span>${' '}
      <${Button} class="small" data-testid=${'cancel-' + c.tool} aria-label=${`Cancel the call of ${c.tool}`}
      onClick=${() => cancel(c)}>Cancel<//></li>`,
    )}</ul>${data.total > most ? html`<p class="soft">${data.total - most} more</p>` : null}</section>`;
}
