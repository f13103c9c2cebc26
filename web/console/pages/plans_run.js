// One run: as a graph, in time, as a table and by its values, live; what can be
// done to it; and files of it.
import { html, useState, useEffect, useRef } from '../lib/html.js';
import { go, narrow, Link } from '../lib/router.js';
import { api, ask } from '../lib/api.js';
import { connection, listen } from '../lib/events.js';
import { Page, Table, State, Trouble, Button, useApi, took, Empty } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { Form } from '../lib/form.js';
import { check } from '../lib/schema.js';
import { save } from '../lib/save.js';
import { indent, part } from '../lib/jsontext.js';
import { Drawing, mostDrawn } from './plans_graph.js';
import { Timeline, useJournal } from './plans_time.js';
import { Step } from './plans_step.js';
import { Act, Controls } from './plans_act.js';
import { inputSchema, isOver } from './plans_model.js';

const runPath = (/** @type {string} */ id) => '/api/v1/runs/' + encodeURIComponent(id);

const least = 100; // milliseconds between two looks at a run that goes on
const rest = 10_000; // between two looks at one in which nothing happens, unless an event tells of it
const untold = 2000; // the same, where no events come

/** @param {number} ms @param {(wake: () => void) => void} onWake */
const pause = (ms, onWake) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, undefined);
    onWake(() => {
      clearTimeout(timer);
      resolve(undefined);
    });
  });

/**
 * A run as it is now. While it goes on the hub answers when its journal has more; then the hub's events tell.
 * @param {string} id
 */
function useRun(id) {
  const [state, set] = useState(
    /** @type {{run: any, plan: any, error: any}} */ ({ run: null, plan: null, error: null }),
  );
  const wake = useRef(() => {});
  const take = (/** @type {any} */ run) =>
    set((old) =>
      old.run && old.run.events > run.events
        ? old
        : { run: { ...run, plan: undefined }, plan: run.plan || old.plan, error: null },
    );
  useEffect(() => {
    const abort = new AbortController();
    let seen = -1,
      settled = false,
      told = false;
    const end = listen((e) => {
      if (e.run === id) {
        told = true;
        wake.current();
      }
    });
    (async () => {
      while (!abort.signal.aborted) {
        const began = Date.now();
        let delay = least;
        try {
          told = false;
          const { run } = await api(
            runPath(id) +
              (seen < 0 ? '?preview=2000&plan=true' : '?preview=2000' + (settled ? '' : `&wait=25s&after=${seen}`)),
            { signal: abort.signal },
          );
          seen = run.events;
          settled = run.settled;
          take(run);
          if (settled && !told) delay = connection.value === 'open' ? rest : untold;
        } catch (error) {
          if (abort.signal.aborted) return;
          set((old) => ({ ...old, error }));
          delay = 2000;
        }
        if (document.hidden) delay = Math.max(delay, 2000);
        await pause(Math.max(0, began + delay - Date.now(), least), (fn) => {
          wake.current = settled ? fn : () => {};
        });
      }
    })();
    return () => {
      abort.abort();
      end();
      wake.current();
    };
  }, [id]);
  return { ...state, take, again: () => wake.current() };
}

const views = ['graph', 'timeline', 'table', 'values'];

/** @param {{id: string, query: Record<string, string>}} props */
export function Run({ id, query }) {
  const path = runPath(id);
  const { run, plan, error, take, again } = useRun(id);
  const [note, setNote] = useState('');
  const view = views.includes(query.view) ? query.view : 'graph';
  const journal = useJournal(path, run?.events || 0, view === 'timeline' || !!query.step);
  /** @param {string} action @param {any} [body] */
  const act = async (action, body = {}) => {
    const said = await api(path + '/' + action, { method: 'POST', body });
    if (said.run.id !== id) {
      go('plans/' + encodeURIComponent(said.run.id), { step: query.step });
      return said;
    }
    setNote(said.note || '');
    take(said.run);
    again();
    return said;
  };
  if (!run || !plan)
    return html`<${Page} title="Run"><${Trouble} error=${error} />${error ? null : html`<p class="loading">Loading…</p>`}<//>`;
  const over = isOver(run),
    all = run.breakpoints || [];
  const toggle = (/** @type {string} */ step) => {
    const without = all.filter((/** @type {any} */ b) => b.step !== step);
    act('break', { breakpoints: without.length < all.length ? without : [...all, { step }] }).catch((e) =>
      setNote(e.message),
    );
  };
  return html`<${Page} title=${run.title || run.id} actions=${html`<span role="status" data-testid="status">
    <${State} is=${run.status} /></span><${Controls} run=${run} act=${act} />`}>
    <${Trouble} error=${error} />
    <p class="soft">${run.id} · session ${run.session} · ${run.done} of ${run.steps.length} steps · ${took(run.tookMs * 1000)}${run.from ? html` · a fork of <${Link}
    to=${'plans/' + encodeURIComponent(run.from.run)}>${run.from.run}<//>: ${run.from.reason}` : null}</p>
    ${note ? html`<p class="notice" role="status" data-testid="note">${note}</p>` : null}
    ${run.paused ? html`<p class="notice" role="status"
    data-testid="paused">Paused${run.paused.step ? ` ${run.paused.after ? 'after' : 'before'} ${run.paused.step}` : ''}: ${run.paused.reason}
    </p>` : null}
    ${run.failure ? html`<${Trouble} error=${run.failure} />` : null}
    <${Body} run=${run} plan=${plan} journal=${journal} view=${view} step=${query.step} path=${path} act=${act}
    onBreak=${over ? undefined : toggle} />
    <div class="foot"><${Inputs} run=${run} plan=${plan} path=${path} act=${act} /><${Other} run=${run} />
    <${Files} run=${run} path=${path} /></div><//>`;
}

/**
 * A run by one of its views, and the step that is looked into. Without a path it is from a file: nothing can be asked or done.
 * @param {{run: any, plan: any, journal: any[], view: string, step?: string, path?: string, act?: any, onBreak?: (id: string) => void}} props
 */
export function Body({ run, plan, journal, view, step: chosen, path, act, onBreak }) {
  const step = run.steps.find((/** @type {any} */ s) => s.id === chosen);
  const pick = (/** @type {string} */ id) => narrow({ step: id === chosen ? undefined : id });
  const table = html`<${Table} rows=${run.steps} onRow=${(/** @type {any} */ s) => pick(s.id)} selected=${chosen} columns=${[
    { title: 'Step', render: (/** @type {any} */ s) => html`<span class="mono">${s.id}</span>` },
    { key: 'tool', title: 'Tool' },
    { title: 'State', render: (/** @type {any} */ s) => html`<${State} is=${s.state} />` },
    { title: 'Tries', className: 'num', render: (/** @type {any} */ s) => s.attempts || '' },
    { title: 'Took', className: 'num', render: (/** @type {any} */ s) => (s.tookMs ? took(s.tookMs * 1000) : '') },
    { title: 'Why', render: (/** @type {any} */ s) => s.error?.message || s.reason || '' },
  ]} />`;
  return html`<div class="bar views" role="tablist" aria-label="View">
    ${views.map((v) => html`<button type="button" role="tab" data-testid=${'view-' + v} aria-selected=${view === v}
    onClick=${() => narrow({ view: v === 'graph' ? undefined : v })}>${v[0].toUpperCase() + v.slice(1)}</button>`)}</div>
    <div class=${step ? 'split' : ''}><div>
      ${
        view === 'graph'
          ? html`<${Drawing} plan=${plan} steps=${run.steps} breakpoints=${run.breakpoints} at=${run.paused?.step}
            selected=${chosen} onStep=${pick} onBreak=${onBreak} />${plan.steps.length > mostDrawn ? table : null}`
          : view === 'timeline'
            ? html`<${Timeline} journal=${journal} run=${run} selected=${chosen} onStep=${pick} />`
            : view === 'values'
              ? html`<${Values} path=${path} run=${run} />`
              : table
      }</div>
    ${
      step
        ? html`<${Step} key=${step.id} step=${step} run=${run} plan=${plan} path=${path} journal=${journal} act=${act}
      back=${path ? 'plans/' + encodeURIComponent(run.id) : 'plans/file'} query=${{ view: view === 'graph' ? undefined : view }}
      />`
        : null
    }</div>`;
}

/** What references stand for, and what the run yields. @param {{path?: string, run: any}} props */
function Values({ path, run }) {
  const [data, set] = useState(/** @type {any} */ (path ? null : run));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (!path) return;
    let gone = false;
    api(path + '?context=true&preview=4096').then(
      (d) => {
        if (!gone) {
          set(d.run);
          setError(null);
        }
      },
      (e) => {
        if (!gone) setError(e);
      },
    );
    return () => {
      gone = true;
    };
  }, [path, run.done, run.status]);
  if (!data) return html`<${Trouble} error=${error} />`;
  const some = (/** @type {any} */ v) => v && Object.keys(v).length;
  return html`<div data-testid="values"><${Trouble} error=${error} /><h3>Yields</h3>
    ${some(data.outputs) ? html`<${Json} value=${data.outputs}
    />` : html`<${Empty}>Nothing yet, or the plan names no outputs.<//>`}
    <h3>Values</h3>${some(data.context) ? html`<${Json} value=${data.context}
    />` : html`<${Empty}>No inputs, and no step has a result yet.<//>`}</div>`;
}

/** A fork with other inputs. @param {{run: any, plan: any, path: string, act: any}} props */
function Inputs({ run, plan, path, act }) {
  const [value, set] = useState(/** @type {any} */ (null));
  const [had, setHad] = useState(/** @type {any} */ ({}));
  const [error, setError] = useState(/** @type {any} */ (null));
  if (!plan.inputs?.length) return null;
  const schema = inputSchema(plan);
  const load = async (/** @type {any} */ e) => {
    if (!e.currentTarget.open || value) return;
    try {
      const { context = {} } = (await api(path + '?context=true')).run;
      const now = Object.fromEntries(
        Object.keys(schema.properties)
          .filter((k) => context[k] !== undefined)
          .map((k) => [k, context[k]]),
      );
      setHad(now);
      set(now);
    } catch (err) {
      setError(err);
    }
  };
  const changed = Object.keys(schema.properties).filter(
    (k) => value && value[k] !== undefined && JSON.stringify(value[k]) !== JSON.stringify(had[k]),
  );
  const problems = value ? check(schema, value, { root: schema }) : [];
  const why = !changed.length ? 'change one first' : problems.length ? 'some are not as the plan wants them' : '';
  const fork = () => act('fork', { inputs: Object.fromEntries(changed.map((k) => [k, value[k]])) });
  return html`<details data-testid="inputs" onToggle=${load}><summary>Other inputs</summary>
    <p class="soft">This makes a fork, in which what comes of the change is done again; ${run.id} stays as it is.</p>
    <${Trouble} error=${error} />
    ${value ? html`<${Form} schema=${schema} value=${value} onChange=${set} problems=${problems} /><div class="bar">
    <${Act} label="Fork with these" testid="fork-inputs" primary why=${why} onClick=${fork} /></div>` : null}</details>`;
}

/** Goes to a comparison with another run. @param {{run: any}} props */
function Other({ run }) {
  const { data, again } = useApi('/api/v1/runs?limit=200', 0, 2000);
  useEffect(
    () =>
      listen((e) => {
        if (e.run && e.run !== run.id && e.type.startsWith('run.')) again();
      }, false),
    [run.id],
  );
  const others = (data?.runs || []).filter((/** @type {any} */ r) => r.id !== run.id);
  const [chosen, choose] = useState('');
  const near =
    run.from?.run ||
    others.find((/** @type {any} */ r) => r.from?.run === run.id)?.id ||
    others.find((/** @type {any} */ r) => r.title === run.title)?.id ||
    '';
  const other = chosen || near;
  return html`<div class="fields"><label>Compare with <select data-testid="other" value=${other}
    onChange=${(/** @type {any} */ e) => choose(e.target.value)}><option value="">another run</option>
      ${others.map((/** @type {any} */ r) => html`<option value=${r.id}>${r.title || 'untitled'} · ${r.status} · ${r.id}
      </option>`)}</select></label>
    <${Act} label="Compare" testid="compare" why=${other ? '' : others.length ? 'choose a run first' : 'there is no other run'}
    onClick=${() => go('plans/compare', { a: other, b: run.id })} /></div>`;
}

/** A name that a file can have. @param {string} name */
const fileName = (name) =>
  name
    .replace(/[^\p{L}\p{N}._-]+/gu, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 80) || 'plan';

/** The plan and the run as files, as the hub wrote them. @param {{run: any, path: string}} props */
function Files({ run, path }) {
  const text = async (/** @type {string} */ at) => (await ask(path + at)).text();
  const plan = async () =>
    save(
      fileName(run.title || run.id) + '.plan.json',
      indent(part(await text('?plan=true'), '/run/plan') || '{}') + '\n',
    );
  const journal = async () => save(run.id + '.ndjson', await text('/journal'), 'application/x-ndjson');
  const whole = async () => {
    const [state, lines] = await Promise.all([text('?plan=true&results=true&context=true'), text('/journal')]);
    save(run.id + '.run.json', `{"run":${part(state, '/run')},"journal":[${lines.trim().split('\n').join(',\n')}]}\n`);
  };
  return html`<div class="bar" role="group" aria-label="Files"><${Link} class="button" to="plans/new" query=${{ run: run.id }}
    data-testid="again">Run again, change or publish its plan<//>
    <${Button} data-testid="export-plan" onClick=${plan}>Export plan<//>
    <${Button} data-testid="export-run" onClick=${whole}>Export run<//>
    <${Button} data-testid="export-journal" onClick=${journal}>Export journal<//></div>`;
}
