// What a tool asks while it runs, on its page or in a chat: a form for each
// question, or an address to go to. Nothing is sent before somebody says so.
import { html, useState } from '../lib/html.js';
import { Form } from '../lib/form.js';
import { check, blank } from '../lib/schema.js';

/** What a call asks, if its answer is a question. @param {import('./tools_result.js').Result} came */
export function asked(came) {
  if (came.status !== 200 || !came.text.includes('"INPUT_REQUIRED"')) return null;
  let whole;
  try {
    whole = JSON.parse(came.text);
  } catch {
    return null;
  }
  if (whole.code !== 'INPUT_REQUIRED') return null;
  return { requests: Object.entries(whole.data?.inputRequests || {}), state: whole.data?.requestState };
}

/** Only what leads to a web page is made a link. @param {string} address */
const isWeb = (address) => /^https?:\/\//i.test(address);

/** What a tool answers to a question, as its next call has it. @param {any} responses @param {any} state */
export const answers = (responses, state) =>
  ',"inputResponses":' + JSON.stringify(responses) + (state === undefined ? '' : ',"requestState":' + JSON.stringify(state));

/** @param {{asked: {requests: [string, any][], answer: (responses: Record<string, any>) => void}}} props */
export function Questions({ asked }) {
  const [values, setValues] = useState(() =>
    Object.fromEntries(
      asked.requests.map(([name, r]) => {
        const schema = r.params?.requestedSchema || {};
        return [name, blank(schema, schema) ?? {}];
      }),
    ),
  );
  const problems = Object.fromEntries(
    asked.requests.map(([name, r]) => {
      const schema = r.params?.requestedSchema;
      return [name, schema && r.params?.mode !== 'url' ? check(schema, values[name], { root: schema, references: false }) : []];
    }),
  );
  const wrong = Object.values(problems).some((p) => p.length > 0);
  const send = (/** @type {string} */ action) => {
    const responses = Object.fromEntries(
      asked.requests.map(([name, r]) => [
        name,
        action === 'accept' && r.params?.mode !== 'url' ? { action, content: values[name] } : { action },
      ]),
    );
    asked.answer(responses);
  };
  return html`<section class="card" aria-label="The tool asks" data-testid="questions" role="alertdialog">
    <h3>The tool asks</h3>
    ${asked.requests.map(
      ([name, r]) => html`<div key=${name} data-testid=${'question-' + name}><p><strong>${r.params?.message || r.method}</strong></p>
      ${
        r.params?.mode === 'url'
          ? html`<p>It wants you to go to this address, which is not the hub's: <span class="mono">
            ${isWeb(r.params.url) ? html`<a href=${r.params.url} target="_blank" rel="noopener noreferrer">${r.params.url}</a>` : r.params.url}
            </span></p>`
          : html`<${Form} schema=${r.params?.requestedSchema || { type: 'object' }} value=${values[name]} problems=${problems[name]}
            onChange=${(/** @type {any} */ v) => setValues((all) => ({ ...all, [name]: v }))} />`
      }</div>`,
    )}
    <div class="bar"><button type="button" class="primary" data-testid="answer" disabled=${wrong} onClick=${() => send('accept')}>
    Send</button><button type="button" data-testid="decline" onClick=${() => send('decline')}>Decline</button>
    <button type="button" data-testid="dismiss" onClick=${() => send('cancel')}>Cancel</button></div></section>`;
}
