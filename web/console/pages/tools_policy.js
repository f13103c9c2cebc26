// Who may call a tool: the decision about a call, and the rule that made it, for
// any principal and any of the hub's own models.
import { html, useState } from '../lib/html.js';
import { api } from '../lib/api.js';
import { Badge, Trouble } from '../lib/ui.js';

const said = { allow: ['good', 'allowed'], ask: ['warn', 'a person is asked'], deny: ['bad', 'denied'] };

/** @param {{tool: string, args: string}} props the arguments as they stand in the form, as JSON */
export function MayCall({ tool, args }) {
  const [principal, setPrincipal] = useState('local');
  const [agent, setAgent] = useState('');
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const check = async (/** @type {Event} */ e) => {
    e.preventDefault();
    setError(null);
    try {
      /** @type {any} */ const who = { principal: principal.trim(), tool };
      if (agent.trim()) who.agent = agent.trim();
      // The arguments go as they are written: numbers may have more digits than a page can hold.
      const body = JSON.stringify(who).slice(0, -1) + `,"args":${args || '{}'}}`;
      setAnswer(await api('/api/v1/policy/test', { method: 'POST', body }));
    } catch (err) {
      setAnswer(null);
      setError(err);
    }
  };
  return html`<details data-testid="may-call"><summary>Who may call it</summary>
    <form class="bar" onSubmit=${check}>
      <label>Principal <input value=${principal} onInput=${(/** @type {any} */ e) => setPrincipal(e.target.value)} /></label>
      <label>Agent <input value=${agent} placeholder="none" onInput=${(/** @type {any} */ e) => setAgent(e.target.value)} /></label>
      <button>Check with these arguments</button>
    </form>
    <p class="soft">An agent is one whose model makes the call; chat is the chat host. Nothing is called.</p>
    <${Trouble} error=${error} />
    ${answer ? html`<${Answer} is=${answer} />` : null}
  </details>`;
}

/** @param {{is: any}} props */
function Answer({ is }) {
  const [kind, word] = said[/** @type {'allow'|'ask'|'deny'} */ (is.action)];
  return html`<p data-testid="may-call-answer"><${Badge} kind=${kind}>${word}${is.remembered ? ' (remembered)' : ''}<//> ${is.reason}
    <br /><span class="soft">Rule: ${is.rule}${is.visible ? '' : '. It is not listed for this caller, and a call is answered as if it did not exist.'}</span></p>`;
}
