// The raw exchange behind a record: what was sent to the server and what it
// said, byte for byte as far as the hub has kept it. All of it is foreign, and
// shown as text.
import { html } from '../lib/html.js';
import { useApi, Badge, Copy, Trouble, bytes, took } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { exact } from '../lib/jsontext.js';

/** @param {string} what @param {string} upstream */
function title(what, upstream) {
  switch (what) {
    case 'asked':
      return 'What the client sent';
    case 'request':
      return 'Sent to ' + upstream;
    case 'result':
      return upstream + ' answered';
    case 'error':
      return upstream + ' answered with an error';
    case 'fault':
      return 'Why there is no answer';
    case 'question':
      return upstream + ' asked';
    case 'answer':
      return 'It was answered';
  }
  return what;
}

/** @param {{call: string}} props */
export function Exchange({ call }) {
  const { data, error, again } = useApi('/api/v1/exchanges/' + encodeURIComponent(call));
  if (error?.status === 404) return html`<p class="soft" data-testid="no-exchange">${error.message}. ${error.hint}</p>`;
  if (!data) return html`<${Trouble} error=${error} />`;
  const x = data.exchange;
  const notes = x.messages.filter((/** @type {any} */ m) => m.what === 'notification');
  const said = x.messages.filter((/** @type {any} */ m) => m.what !== 'notification');
  const all = said.length ? said : notes; // nothing else to look at, then
  const other = x.upstream || 'The hub';
  return html`<div class="exchange" data-testid="exchange">
    <p class="soft">${[x.method, x.upstream, x.principal && 'for ' + x.principal, x.session && 'in ' + x.session, x.kind, x.done && took(x.took_us || 0)].filter(Boolean).join(' · ')}
      ${x.done ? null : html` · under way <button type="button" class="small" onClick=${again}>Look again</button>`}</p>
    ${all.map((/** @type {any} */ m, /** @type {number} */ i) => html`<${Said} key=${i} message=${m} upstream=${other} />`)}
    ${
      said.length && notes.length
        ? html`<details data-testid="notes"><summary>
          ${notes.length} ${notes.length === 1 ? 'notification' : 'notifications'} meanwhile</summary>
      ${notes.map((/** @type {any} */ m, /** @type {number} */ i) => html`<${Said} key=${i} message=${m} upstream=${other} />`)}</details>`
        : null
    }
    ${x.more ? html`<p class="soft">${x.more} further messages are not kept.</p>` : null}</div>`;
}

/** One message. @param {{message: any, upstream: string}} props */
function Said({ message, upstream }) {
  let value;
  let parsed = false;
  if (!message.cut) {
    try {
      value = exact(message.text);
      parsed = true;
    } catch {
      /* it is shown as it is */
    }
  }
  const about = [message.what !== 'notification' && message.method, bytes(message.bytes), '+' + took(message.at_us)]
    .filter(Boolean)
    .join(' · ');
  return html`<section class="passed" data-testid=${'said-' + message.what}><div class="bar"><h3>
    ${message.what === 'notification' ? message.method : title(message.what, upstream)}</h3>
    <span class="soft">${about}</span>
    ${message.cut ? html`<${Badge} kind="warn">cut after ${bytes(message.text.length)} of ${bytes(message.bytes)}<//>` : null}
    </div>
    ${
      parsed
        ? html`<${Json} value=${value} raw=${message.text} />`
        : html`<div class="json"><div class="bar"><${Copy} text=${message.text} /></div><pre>
          ${message.text}${message.cut ? html`<span class="soft">… cut here</span>` : null}</pre></div>`
    }</section>`;
}
