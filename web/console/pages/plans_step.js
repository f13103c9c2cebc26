// One step of a run: what it is, what it would be called with, what its calls
// were and came to, and what can be done to it.
import { html, useState, useEffect } from '../lib/html.js';
import { api, ask } from '../lib/api.js';
import { Link } from '../lib/router.js';
import { Table, State, Trouble, Button, Time, Side } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { exact, indent, part } from '../lib/jsontext.js';
import { save } from '../lib/save.js';
import { callsOf } from './plans_model.js';
import { span } from './plans_time.js';
import { Act, StepControls, Breaks, mustBeJSON } from './plans_act.js';

const preview = 20_000; // bytes of a result that are shown

/** What the hub says of a step, asked anew when something of it has changed. @param {() => Promise<any>} get @param {any[]} deps */
function useFresh(get, deps) {
  const [state, set] = useState(/** @type {{data: any, error: any}} */ ({ data: null, error: null }));
  useEffect(() => {
    let gone = false;
    get().then(
      (data) => {
        if (!gone) set({ data, error: null });
      },
      (error) => {
        if (!gone) set((old) => ({ ...old, error }));
      },
    );
    return () => {
      gone = true;
    };
  }, deps);
  return state;
}

/**
 * @param {{step: any, run: any, plan: any, path?: string, journal: any[], act?: (a: string, b?: any) => Promise<any>,
 *   back: string, query: any}} props back and query are the run without it
 */
export function Step({ step, run, plan, path, journal, act, back, query }) {
  const planned = plan.steps.find((/** @type {any} */ s) => s.id === step.id);
  const calls = callsOf(journal).filter((c) => c.step === step.id);
  return html`<${Side} label=${'Step ' + step.id} testid="step-panel" back=${back} query=${query}><h2>
    ${step.id} <${State} is=${step.state} /></h2>
    ${planned?.title ? html`<p>${planned.title}</p>` : null}<p class="mono">${step.tool}</p>
    ${step.error ? html`<${Trouble} error=${step.error} />` : null}${step.reason ? html`<p class="soft">${step.reason}
    </p>` : null}
    ${step.approval ? html`<p class="notice">It waits for a person. <${Link} to="">Home<//> has the question.</p>` : null}
    ${step.nextRetry ? html`<p class="notice">It failed and is tried again at <${Time} at=${step.nextRetry} />.</p>` : null}
    ${act ? html`<${StepControls} run=${run} step=${step} act=${act} />` : null}
    ${path && ['pending', 'waiting', 'unknown'].includes(step.state) ? html`<${Inspected} path=${path} step=${step} run=${run}
    />` : null}
    ${step.state === 'done' ? (path ? html`<${Result} path=${path} step=${step} run=${run}
    />` : step.result === undefined ? null : html`<h3>Result</h3><div data-testid="step-result"><${Json} value=${step.result} />
      </div>`) : null}
    ${calls.length ? html`<h3>Calls</h3><${Calls} calls=${calls} />` : null}
    ${act ? html`<${Breaks} run=${run} step=${step} act=${act} /><${SetResult} step=${step} act=${act} />` : null}
    <details><summary>As it is in the plan</summary><${Json} value=${planned} /></details><//>`;
}

/** What it would be called with now. @param {{path: string, step: any, run: any}} props */
function Inspected({ path, step, run }) {
  const { data, error } = useFresh(
    async () => (await api(path + '/inspect', { method: 'POST', body: { step: step.id } })).next,
    [path, step.id, run.events],
  );
  return html`<h3>It would be called with</h3><${Trouble} error=${error} />${
    data
      ? html`<div data-testid="inspected">
    ${data.error ? html`<p class="soft">That is not known yet: ${data.error}</p>` : null}
    ${data.when === false ? html`<p class="soft">Its condition does not hold: it would be skipped.</p>` : null}
    ${data.items === undefined ? null : html`<p
    class="soft">For each of ${data.items} items${data.items ? '; this is the first' : ''}.</p>`}
    ${data.args === undefined ? null : html`<${Json} value=${data.args} />`}</div>`
      : null
  }`;
}

/** @param {{path: string, step: any, run: any}} props */
function Result({ path, step, run }) {
  const at = `${path}?results=true&step=${encodeURIComponent(step.id)}`;
  const index = run.steps.findIndex((/** @type {any} */ s) => s.id === step.id);
  const { data, error } = useFresh(
    async () => part(await (await ask(`${at}&preview=${preview}`)).text(), `/run/steps/${index}/result`),
    [at, step.state, step.attempts, step.tookMs],
  );
  const whole = async () =>
    save(step.id + '.json', part(await (await ask(at)).text(), `/run/steps/${index}/result`) || 'null');
  return html`<h3>Result${step.pinned ? html` <span class="soft">taken over or set</span>` : step.fallback ? html` <span
    class="soft">of its fallback</span>` : null}</h3><${Trouble} error=${error} />
    ${!data ? null : html`<div data-testid="step-result"><${Json} value=${exact(data)} raw=${indent(data)} /></div>
    <div class="bar"><${Button} class="small" data-testid="save-result" onClick=${whole}>Save all of it<//></div>`}`;
}

/** @param {{calls: any[]}} props */
function Calls({ calls }) {
  const shown = calls.slice(-100);
  return html`<div data-testid="calls">
    ${calls.length > shown.length ? html`<p class="soft">The last ${shown.length} of ${calls.length}.</p>` : null}
    <${Table} rows=${shown} rowKey=${(/** @type {any} */ c) => `${c.kind} ${c.item} ${c.attempt}`} columns=${[
      {
        title: 'Try',
        render: (/** @type {any} */ c) =>
          `${c.attempt}${c.kind ? ' · ' + c.kind : ''}${c.item ? ` · item ${c.item}` : ''}`,
      },
      {
        title: 'Came to',
        render: (/** @type {any} */ c) =>
          html`<${State} is=${c.outcome} />${c.failure ? html`<div class="soft">${c.failure.message}</div>` : null}`,
      },
      {
        title: 'Took',
        className: 'num',
        render: (/** @type {any} */ c) => (Number.isNaN(c.end) ? '' : span(c.end - c.begin)),
      },
      {
        title: 'Sent',
        render: (/** @type {any} */ c) =>
          c.args === undefined ? '' : html`<details><summary>Arguments</summary><${Json} value=${c.args} /></details>`,
      },
    ]} /></div>`;
}

/** @param {{step: any, act: (a: string, b?: any) => Promise<any>}} props */
function SetResult({ step, act }) {
  const [value, setValue] = useState('');
  const why = value.trim() ? '' : 'write a value first';
  return html`<h3>Another result</h3><p class="soft">
    ${step.state === 'unknown' ? 'What became of it is not known: this says it.' : 'This makes a fork, in which what comes of it is done again. This run stays as it is.'}</p>
    <label>A JSON value<textarea rows="3" data-testid="set-value" spellcheck=${false} value=${value}
    onInput=${(/** @type {any} */ e) => setValue(e.target.value)}></textarea></label>
    <div class="bar"><${Act} label="Set its result" testid="set" why=${why}
    onClick=${() => act('set', `{"step":${JSON.stringify(step.id)},"value":${mustBeJSON(value)}}`)} /></div>`;
}
