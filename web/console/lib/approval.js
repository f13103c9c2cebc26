// A call that waits for a person: what would be called, and what to say to it.
import { html, useState, useEffect, useRef } from './html.js';
import { Badge, Button, Trouble } from './ui.js';
import { Json } from './json.js';
import { Patch } from './diff.js';
import { exact } from './jsontext.js';

/** How long it still waits. @param {{until: string}} props */
function Left({ until }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const t = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(t);
  }, []);
  const s = Math.max(0, Math.round((Date.parse(until) - Date.now()) / 1000));
  return html`<span class="soft">denied by itself in ${s >= 60 ? Math.floor(s / 60) + ' min ' : ''}${s % 60} s</span>`;
}

/** What is wrong with arguments that were edited, and what they are. @param {string|null} text @returns {{args?: any, wrong: string}} */
function read(text) {
  if (text === null) return { wrong: '' };
  try {
    const args = exact(text);
    const object = args !== null && typeof args === 'object' && !Array.isArray(args);
    return { args, wrong: object ? '' : 'The arguments have to be one JSON object.' };
  } catch (e) {
    return { wrong: /** @type {Error} */ (e).message };
  }
}

const scopes = [
  ['once', 'this call'],
  ['session', 'this tool in this session'],
  ['tool', 'this tool'],
  ['server', 'all tools of the server'],
];

/**
 * @param {{approval: any, decide: (p: any) => Promise<any>, whose?: boolean}} props whose says for whom it is asked,
 * where that is not plain
 */
export function Approval({ approval: a, decide, whose }) {
  const [edited, setEdited] = useState(/** @type {string|null} */ (null));
  const [remember, setRemember] = useState('once');
  const reason = useRef(/** @type {any} */ (null));
  const { args, wrong } = read(edited);
  const words = () => (reason.current.value.trim() ? { reason: reason.current.value.trim() } : {});
  const say =
    (/** @type {string} */ decision, /** @type {any} */ more = {}) =>
    () =>
      decide({ decision, remember, ...words(), ...more });
  const edit = () => setEdited(JSON.stringify(a.args ?? {}, null, 2));
  const offered = whose && !a.session ? scopes.filter(([v]) => v !== 'session') : scopes;
  return html`<article class="approval" role="group" aria-label=${'Allow ' + a.tool + '?'} data-testid="approval">
    <h3>Allow <span class="mono">${a.tool || a.kind}</span>? <${Left} until=${a.expires} /></h3>
    ${whose ? html`<p class="soft">For ${a.principal}${a.session ? ` in ${a.session}` : ''}</p>` : null}
    ${a.reason ? html`<p>${a.reason}</p>` : null}
    ${a.through?.length ? html`<p class="soft">Through ${a.through.join(', then ')}</p>` : null}
    ${a.client && !(whose && a.client === a.principal) ? html`<p class="soft">Asked by ${a.client}</p>` : null}
    ${(a.flags || []).map((/** @type {any} */ f) => html`<p><${Badge} kind="bad">suspicious<//> ${f.reason}</p>`)}
    ${a.change ? html`<p>Its definition, compared with the one before:</p><${Patch} text=${a.change} />` : null}
    ${
      edited === null
        ? html`<div data-testid="approval-args"><${Json} value=${a.args ?? {}} /></div>`
        : html`<label>Arguments<textarea rows="8" data-testid="approval-edit" value=${edited}
          onInput=${(/** @type {any} */ e) => setEdited(e.target.value)}></textarea></label>
        ${wrong ? html`<${Trouble} error=${{ message: wrong }} />` : null}`
    }
    ${a.sent ? html`<details><summary>With what the references stand for</summary><${Json} value=${a.sent} /></details>` : null}
    <div class="bar"><label>Applies to <select data-testid="remember" value=${remember}
        onChange=${(/** @type {any} */ e) => setRemember(e.target.value)}>
        ${offered.map(([v, t]) => html`<option value=${v}>${t}</option>`)}</select></label>
      <label>${whose ? 'Note to the caller' : 'Note to the model'} <input ref=${reason} data-testid="reason" /></label></div>
    <div class="bar">${
      edited === null
        ? html`<${Button} class="primary" data-testid="approve" onClick=${say('approve')}>Approve<//>
        <${Button} data-testid="edit" onClick=${edit}>Edit<//>`
        : html`<${Button} class="primary" data-testid="approve-edited" disabled=${wrong !== ''}
          onClick=${say('edit', { args })}>Approve as edited<//>
        <${Button} onClick=${() => setEdited(null)}>As it was<//>`
    }
      <${Button} danger data-testid="deny" onClick=${say('deny')}>Deny<//></div></article>`;
}
