// Plans: runs and the plans that are offered as tools; a run as a graph, in
// time and as a table, and what a person can do to it step by step.
import { html, useState, useEffect } from '../lib/html.js';
import { go, narrow, Link } from '../lib/router.js';
import { api, ask } from '../lib/api.js';
import { Page, Table, State, Trouble, Empty, Button, useApi, took, Time } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { save } from '../lib/save.js';
import { Drawing, Timeline } from './plans_graph.js';

/** @param {{rest: string[], query: Record<string, string>}} props */
export function Plans({ rest, query }) {
  if (rest[0] === 'new') return html`<${Begin} />`;
  if (rest[0]) return html`<${Run} key=${rest[0]} id=${rest[0]} query=${query} />`;
  return html`<${List} />`;
}

function List() {
  const runs = useApi('/api/v1/runs', 2000), plans = useApi('/api/v1/plans', 10000);
  return html`<${Page} title="Plans" actions=${html`<${Link} to="plans/new" data-testid="new-run">Run or import a plan<//>`}>
    <${Trouble} error=${runs.error || plans.error} /><h2>Runs</h2>
    <${Table} rows=${(runs.data?.runs || []).slice(0, 500)} empty="No plan was run yet. plan_execute and plan_debug run one, and so does this page." onRow=${(/** @type {any} */ r) => go('plans/' + encodeURIComponent(r.id))} columns=${[
      { title: 'Run', render: (/** @type {any} */ r) => html`<${Link} to=${'plans/' + encodeURIComponent(r.id)}>${r.title || r.id}<//>` }, { title: 'State', render: (/** @type {any} */ r) => html`<${State} is=${r.status} />` },
      { title: 'Steps', className: 'num', render: (/** @type {any} */ r) => `${r.done} of ${r.steps}` }, { key: 'session', title: 'Session' }, { title: 'Began', render: (/** @type {any} */ r) => html`<${Time} at=${r.began} />` },
      { title: 'Of', render: (/** @type {any} */ r) => (r.from ? html`<${Link} to=${'plans/' + encodeURIComponent(r.from.run)}>fork<//>` : '') }]} />
    <h2>Offered as tools</h2><${Table} rows=${plans.data?.plans || []} empty="No plan is published as a tool." columns=${[{ key: 'name', title: 'Name' }, { key: 'tool', title: 'Tool' }, { key: 'title', title: 'Title' }]} /><//>`;
}

/** A plan from a text or a file, to be checked or run. */
function Begin() {
  const [text, setText] = useState('');
  const [inputs, setInputs] = useState('');
  const [session, setSession] = useState('');
  const [checked, setChecked] = useState(/** @type {any} */ (null));
  /** @param {any} more */
  const send = (more) => {
    const plan = text.trim().startsWith('{') ? JSON.parse(text) : text.trim();
    return api('/api/v1/runs', { method: 'POST', body: { plan, ...(session ? { session } : {}), ...(inputs.trim() ? { inputs: JSON.parse(inputs) } : {}), ...more } });
  };
  const start = async (/** @type {boolean} */ paused) => go('plans/' + encodeURIComponent((await send({ paused })).run.id));
  return html`<${Page} title="Run a plan"><div class="begin">
    <label>From a file <input type="file" accept=".json,application/json" data-testid="import" onChange=${async (/** @type {any} */ e) => {
      const read = await e.target.files[0]?.text();
      if (!read) return;
      let plan = read;
      try { const whole = JSON.parse(read); plan = JSON.stringify(whole.run?.plan || whole.plan || whole, null, 2); } catch { /* what is wrong with it is said when it is checked */ }
      setText(plan);
    }} /></label>
    <label>Plan: JSON, @name of a session, or the id of a run<textarea rows="16" data-testid="plan-text" value=${text} onInput=${(/** @type {any} */ e) => setText(e.target.value)}></textarea></label>
    <label>Inputs: a JSON object, or nothing<textarea rows="3" data-testid="plan-inputs" value=${inputs} onInput=${(/** @type {any} */ e) => setInputs(e.target.value)}></textarea></label>
    <label>Session (left empty, a new one) <input data-testid="plan-session" value=${session} onInput=${(/** @type {any} */ e) => setSession(e.target.value)} /></label>
    <div class="bar"><${Button} data-testid="check" onClick=${async () => { setChecked(null); setChecked(await send({ dryRun: true })); }}>Check<//><${Button} data-testid="debug" onClick=${() => start(true)}>Debug<//><${Button} class="primary" data-testid="run" onClick=${() => start(false)}>Run<//></div>
    ${checked ? html`<p data-testid="checked" role="status">It could be run; nothing was called.</p><${Drawing} plan=${checked.plan} steps=${[]} breaks=${new Set()} onStep=${() => {}} />` : null}</div><//>`;
}

/** @param {{id: string, query: Record<string, string>}} props */
function Run({ id, query }) {
  const path = '/api/v1/runs/' + encodeURIComponent(id);
  const [pace, setPace] = useState(600);
  const { data, error, again } = useApi(path + '?plan=true&results=true&context=true&preview=4096', pace);
  const run = data?.run;
  const over = run && ['done', 'failed', 'stopped'].includes(run.status);
  useEffect(() => setPace(over ? 5000 : 600), [over]);
  const view = ['timeline', 'table', 'values'].includes(query.view) ? query.view : 'graph';
  const [note, setNote] = useState('');
  /** @param {string} action @param {any} [body] */
  const act = async (action, body = {}) => {
    const said = await api(path + '/' + action, { method: 'POST', body });
    setNote(said.note || '');
    if (said.run.id !== id) go('plans/' + encodeURIComponent(said.run.id));
    again();
    return said;
  };
  const breaks = new Set((run?.breakpoints || []).map((/** @type {any} */ b) => b.step));
  const toggle = (/** @type {string} */ step) => act('break', { breakpoints: breaks.has(step) ? run.breakpoints.filter((/** @type {any} */ b) => b.step !== step) : [...(run.breakpoints || []), { step }] });
  const pick = (/** @type {string} */ step) => narrow({ step });
  if (!run) return html`<${Page} title="Run"><${Trouble} error=${error} />${error ? null : html`<p class="loading">Loading…</p>`}<//>`;
  const step = run.steps.find((/** @type {any} */ s) => s.id === query.step);
  return html`<${Page} title=${run.title || run.id} actions=${html`<${State} is=${run.status} /><${Controls} run=${run} over=${over} act=${act} /><${Exports} run=${run} path=${path} />`}>
    <${Trouble} error=${error} /><p class="soft">${run.id} · session ${run.session} · ${run.done} of ${run.steps.length} steps · ${took(run.tookMs * 1000)}${run.from ? html` · a fork of <${Link} to=${'plans/' + encodeURIComponent(run.from.run)}>${run.from.run}<//>: ${run.from.reason}` : null}</p>
    ${note ? html`<p class="notice" role="status">${note}</p>` : null}
    ${run.paused ? html`<p class="notice" role="status" data-testid="paused">Paused${run.paused.step ? ` ${run.paused.after ? 'after' : 'before'} ${run.paused.step}` : ''}: ${run.paused.reason}</p>` : null}
    ${run.failure ? html`<${Trouble} error=${run.failure} />` : null}
    <div class="bar" role="tablist" aria-label="View">${['graph', 'timeline', 'table', 'values'].map((v) => html`<button type="button" role="tab" data-testid=${'view-' + v} aria-selected=${view === v} onClick=${() => narrow({ view: v === 'graph' ? undefined : v })}>${v}</button>`)}</div>
    <div class=${step ? 'split' : ''}><div>${view === 'graph' ? html`<${Drawing} plan=${run.plan} steps=${run.steps} breaks=${breaks} at=${run.paused?.step} selected=${query.step} onStep=${pick} onBreak=${toggle} />`
      : view === 'timeline' ? html`<${Times} path=${path} run=${run} />`
      : view === 'values' ? html`<${Json} value=${{ outputs: run.outputs || {}, context: run.context || {} }} />`
      : html`<${Table} rows=${run.steps} onRow=${(/** @type {any} */ s) => pick(s.id)} selected=${query.step} columns=${[{ key: 'id', title: 'Step' }, { key: 'tool', title: 'Tool' }, { title: 'State', render: (/** @type {any} */ s) => html`<${State} is=${s.state} />` }, { key: 'attempts', title: 'Attempts', className: 'num' }, { title: 'Took', className: 'num', render: (/** @type {any} */ s) => (s.tookMs ? took(s.tookMs * 1000) : '') }, { title: 'Why', render: (/** @type {any} */ s) => s.error?.message || s.reason || '' }]} />`}</div>
    ${step ? html`<${Step} key=${step.id} step=${step} plan=${run.plan} over=${over} act=${act} />` : null}</div><//>`;
}

/** @param {{run: any, over: boolean, act: (a: string, b?: any) => Promise<any>}} props */
function Controls({ run, over, act }) {
  if (over) return null;
  return html`${run.status === 'paused' ? html`<${Button} data-testid="step" onClick=${() => act('step')}>Step<//><${Button} class="primary" data-testid="continue" onClick=${() => act('continue')}>Continue<//>` : html`<${Button} data-testid="pause" onClick=${() => act('pause')}>Pause<//>`}
    <${Button} danger data-testid="stop" onClick=${() => act('stop')}>Stop<//>`;
}

/** @param {{run: any, path: string}} props */
function Exports({ run, path }) {
  return html`<${Button} data-testid="export-plan" onClick=${() => save((run.title || run.id) + '.plan.json', JSON.stringify(run.plan, null, 2) + '\n')}>Export plan<//>
    <${Button} data-testid="export-run" onClick=${async () => save(run.id + '.run.json', JSON.stringify(await api(path + '?plan=true&results=true&context=true'), null, 2) + '\n')}>Export run<//>`;
}

/** @param {{path: string, run: any}} props */
function Times({ path, run }) {
  const [journal, set] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    const abort = new AbortController();
    (async () => {
      try { set((await (await ask(path + '/journal', { signal: abort.signal })).text()).trim().split('\n').map((l) => JSON.parse(l))); } catch { /* the run itself tells what is wrong */ }
    })();
    return () => abort.abort();
  }, [path, run.events]);
  return journal.length ? html`<${Timeline} journal=${journal} steps=${run.steps} />` : html`<${Empty}>Nothing has happened yet.<//>`;
}

/** @param {{step: any, plan: any, over: boolean, act: (a: string, b?: any) => Promise<any>}} props */
function Step({ step, plan, over, act }) {
  const [seen, setSeen] = useState(/** @type {any} */ (null));
  const [value, setValue] = useState('');
  return html`<section class="side" aria-label=${step.id} data-testid="step-panel"><h2>${step.id} <${State} is=${step.state} /></h2><p class="mono">${step.tool}</p>
    ${step.error ? html`<${Trouble} error=${step.error} />` : null}
    <div class="bar"><${Button} data-testid="inspect" onClick=${async () => setSeen((await act('inspect', { step: step.id })).next)}>Inspect<//>
      ${over ? null : html`<${Button} data-testid="run-to" onClick=${() => act('run_to', { step: step.id })}>Run to here<//><${Button} data-testid="skip" onClick=${() => act('skip', { step: step.id })}>Skip<//><${Button} data-testid="retry" onClick=${() => act('retry', { step: step.id })}>Retry<//>`}
      <${Button} data-testid="fork" onClick=${() => act('fork', { step: step.id })}>Fork from here<//></div>
    ${seen ? html`<h3>It would be called with</h3><div data-testid="inspected"><${Json} value=${seen} /></div>` : null}
    ${step.result !== undefined ? html`<h3>Result</h3><div data-testid="step-result"><${Json} value=${step.result} /></div>` : null}
    <h3>Set its result, in a fork</h3><label>A JSON value<textarea rows="3" data-testid="set-value" value=${value} onInput=${(/** @type {any} */ e) => setValue(e.target.value)}></textarea></label>
    <div class="bar"><${Button} data-testid="set" disabled=${!value.trim()} onClick=${() => act('set', { step: step.id, value: JSON.parse(value) })}>Set<//></div>
    <details><summary>As it is in the plan</summary><${Json} value=${plan.steps.find((/** @type {any} */ s) => s.id === step.id)} /></details></section>`;
}
