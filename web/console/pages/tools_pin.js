// Definitions that are new, have changed or are suspicious: the mark, the
// difference, and the buttons to accept or reject them.
import { html, useState } from '../lib/html.js';
import { api } from '../lib/api.js';
import { Badge, Button, Trouble, useApi } from '../lib/ui.js';
import { Patch } from '../lib/diff.js';

const words = /** @type {Record<string, [string, string]>} */ ({
  changed: ['warn', 'changed'],
  new: ['warn', 'new'],
  rejected: ['bad', 'rejected'],
  unchecked: ['warn', 'not compared'],
});

/** How a definition stands, if somebody should look at it. @param {{pin?: any}} props */
export function Mark({ pin }) {
  if (!pin || (pin.state === 'accepted' && !pin.flags?.length)) return null;
  const [kind, word] = words[pin.state] || ['', ''];
  return html`${word ? html` <${Badge} kind=${kind}>${word}<//>` : null}
    ${pin.hold ? html` <span title=${pin.hold}><${Badge} kind="bad">held<//></span>` : null}
    ${pin.flags?.length ? html` <span title=${pin.flags.map((/** @type {any} */ f) => f.reason).join('; ')}>
      <${Badge} kind="bad">suspicious<//></span>` : null}`;
}

/** Why a definition is suspicious. @param {{flags?: any[]}} props */
export function Flags({ flags }) {
  if (!flags?.length) return null;
  return html`<ul data-testid="flags">${flags.map((f) => html`<li><${Badge} kind="bad">suspicious<//> ${f.reason}</li>`)}</ul>`;
}

const told = /** @type {Record<string, string>} */ ({
  changed: 'The server has changed this definition. Until you accept it, what it says about its risk does not count.',
  new: 'The server did not have this when it was configured. Until you accept it, what it says about its risk does not count.',
  rejected: 'You rejected this definition, so it cannot be called until it changes back or you accept it.',
  unchecked: 'The store cannot be read, so this definition cannot be compared with the one you accepted.',
  accepted: 'The server had this from the beginning.',
});

/**
 * One definition, its difference and what to say to it.
 * @param {{is: any, done: () => void}} props is has name, digest, state, hold, flags and diff
 */
export function Definition({ is, done }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const say = (/** @type {string} */ verb) => async () => {
    setError(null);
    try {
      const body = JSON.stringify({ definitions: [{ name: is.name, digest: is.digest }] });
      await api('/api/v1/definitions/' + verb, { method: 'POST', body });
    } catch (err) {
      setError(err);
    }
    done();
  };
  return html`<div class="definition" data-testid="definition">
    <p class="soft">${is.hold ? 'It cannot be called: ' + is.hold + '.' : told[is.state]}</p>
    <${Flags} flags=${is.flags} />
    ${is.diff && is.state !== 'accepted' ? html`<${Patch} text=${is.diff} />` : null}
    <${Trouble} error=${error} />
    <div class="bar"><${Button} class="primary" data-testid="accept" onClick=${say('accept')}>Accept<//>
      ${is.state === 'rejected' ? null : html`<${Button} danger data-testid="reject" onClick=${say('reject')}>Reject<//>`}</div></div>`;
}

/** All definitions that somebody should look at. @param {{done: () => void}} props */
export function Changes({ done }) {
  const { data, error, again } = useApi('/api/v1/definitions', 5000);
  if (!data?.definitions.length) return html`<${Trouble} error=${error} />`;
  const decided = () => {
    again();
    done();
  };
  return html`<section aria-label="Definitions to look at" class="changes" data-testid="changes"><h2>Definitions to look at</h2>
    <p class="soft">Servers say these now, and nobody has accepted them.</p>
    ${data.definitions.map((/** @type {any} */ d) => {
      const name = d.kind === 'resource template' ? d.server + ':' + d.definition : d.name;
      return html`<details key=${name + d.digest} data-testid=${'change/' + name}><summary><span class="mono">${d.name}</span>
        ${d.kind === 'tool' ? '' : ' (' + d.kind + ')'} <span class="soft">${d.server}${d.viewer ? ', for ' + d.viewer : ''}</span>
        <${Mark} pin=${d} /></summary><${Definition} is=${{ ...d, name }} done=${decided} /></details>`;
    })}</section>`;
}
