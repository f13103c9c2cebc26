// Plans: runs, the plans that are offered as tools and those that sessions
// keep. One run, a new one, two compared and one from a file are views of it.
import { html, useState, useEffect, useRef } from '../lib/html.js';
import { go, Link } from '../lib/router.js';
import { api } from '../lib/api.js';
import { listen } from '../lib/events.js';
import { Page, Table, State, Trouble, useApi, Time } from '../lib/ui.js';
import { Pager, Sure } from '../lib/more.js';
import { Act } from './plans_act.js';
import { Begin } from './plans_begin.js';
import { Compare } from './plans_compare.js';
import { File } from './plans_file.js';
import { Run } from './plans_run.js';

/** @param {{rest: string[], query: Record<string, string>}} props */
export function Plans({ rest, query }) {
  switch (rest[0]) {
    case undefined:
    case '':
      return html`<${List} query=${query} />`;
    case 'new':
      return html`<${Begin} query=${query} />`;
    case 'compare':
      return html`<${Compare} query=${query} />`;
    case 'file':
      return html`<${File} query=${query} />`;
  }
  return html`<${Run} key=${rest[0]} id=${rest[0]} query=${query} />`;
}

const size = 50; // runs of a page

/** Calls fn soon after something of a kind has happened, and not more often than every so many milliseconds. @param {RegExp} types @param {number} pace @param {() => void} fn */
function useTold(types, pace, fn) {
  const now = useRef(fn);
  now.current = fn;
  useEffect(() => {
    let timer = 0;
    const end = listen((e) => {
      if (types.test(e.type) && !timer)
        timer = window.setTimeout(() => {
          timer = 0;
          now.current();
        }, pace);
    });
    return () => {
      end();
      clearTimeout(timer);
    };
  }, []);
}

/** @param {{query: Record<string, string>}} props */
function List({ query }) {
  const offset = Number(query.offset) || 0;
  const runs = useApi(`/api/v1/runs?limit=${size}&offset=${offset}`, 15_000),
    plans = useApi('/api/v1/plans?saved=true', 30_000);
  useTold(/^(run\.|step\.(done|failed|skipped))/, 300, runs.again);
  useTold(/^(session\.|upstream\.catalog$)/, 2000, plans.again);
  const [chosen, choose] = useState(/** @type {string[]} */ ([]));
  const mark = (/** @type {string} */ id) =>
    choose(chosen.includes(id) ? chosen.filter((x) => x !== id) : [...chosen, id].slice(-2));
  const why = chosen.length === 2 ? '' : 'mark two runs first';
  return html`<${Page} title="Plans" actions=${html`<${Act} label="Compare" testid="compare" why=${why}
    onClick=${() => go('plans/compare', { a: chosen[0], b: chosen[1] })} />
    <${Link} class="button primary" to="plans/new" data-testid="new-run">Run or import a plan<//>`}>
    <${Trouble} error=${runs.error || plans.error} /><h2>Runs</h2>
    ${
      runs.data
        ? html`<div data-testid="runs">
          <${Table} rows=${runs.data.runs}
          empty="No plan was run yet. plan_execute and plan_debug run one, and so does this page." columns=${[
            {
              title: 'Run',
              render: (/** @type {any} */ r) =>
                html`<input type="checkbox" data-testid="mark" data-run=${r.id} aria-label=${'Compare ' + (r.title || r.id)}
                  checked=${chosen.includes(r.id)} onChange=${() => mark(r.id)} /> <${Link}
                  to=${'plans/' + encodeURIComponent(r.id)}>${r.title || r.id}<//>`,
            },
            {
              title: 'State',
              render: (/** @type {any} */ r) =>
                html`<${State} is=${r.status} />${r.reason ? html`<div class="soft clip">${r.reason}</div>` : null}`,
            },
            { title: 'Steps', className: 'num', render: (/** @type {any} */ r) => `${r.done} of ${r.steps}` },
            { key: 'session', title: 'Session' },
            { title: 'Began', render: (/** @type {any} */ r) => html`<${Time} at=${r.began} />` },
            {
              title: 'Of',
              render: (/** @type {any} */ r) =>
                r.from ? html`<${Link} to=${'plans/' + encodeURIComponent(r.from.run)}>fork<//>` : '',
            },
          ]} /></div>
      <${Pager} offset=${offset} size=${size} total=${runs.data.total} />`
        : null
    }
    <${Offered} plans=${plans.data?.plans || []} again=${plans.again} /><${Saved} data=${plans.data} /><//>`;
}

/** @param {{plans: any[], again: () => void}} props */
function Offered({ plans, again }) {
  return html`<h2>Offered as tools</h2><div data-testid="offered">
    <${Table} rows=${plans} empty="No plan is published as a tool. One that is opened to be run can be." columns=${[
    {
      title: 'Tool',
      render: (/** @type {any} */ p) =>
        html`<${Link} to=${'tools/' + encodeURIComponent(p.tool)} class="mono">${p.tool}<//>${p.title ? html`<div class="soft">
          ${p.title}</div>` : null}`,
    },
    { title: 'Steps', className: 'num', key: 'steps' },
    {
      title: 'Inputs',
      render: (/** @type {any} */ p) => (p.inputs || []).map((/** @type {any} */ i) => i.name).join(', ') || 'none',
    },
    { title: 'Of', key: 'owner' },
    {
      title: '',
      render: (
        /** @type {any} */ p,
      ) => html`<div class="bar"><${Link} class="button" to="plans/new" query=${{ published: p.name }}
        aria-label=${'Run ' + p.name} data-testid=${'run-' + p.name}>Run<//>
      <${Sure} what=${'Take back ' + p.name} label="Take back" testid=${'remove-' + p.name} onClick=${async () => {
        await api('/api/v1/plans/' + encodeURIComponent(p.name), { method: 'DELETE' });
        again();
      }} /></div>`,
    },
  ]} /></div>`;
}

/** @param {{data: any}} props */
function Saved({ data }) {
  return html`<h2>Kept in sessions</h2><div data-testid="saved">
    <${Table} rows=${data?.saved || []} rowKey=${(/** @type {any} */ s) => `${s.principal}/${s.session}/${s.name}`}
    empty="No session keeps a plan. plan_create with saveAs keeps one." columns=${[
    {
      title: 'Plan',
      render: (/** @type {any} */ s) =>
        html`<${Link} class="mono" to=${`context/${encodeURIComponent(s.session)}/${encodeURIComponent(s.name)}`}
          query=${{ principal: s.principal }}>@${s.name}<//>${s.title ? html`<div class="soft">${s.title}</div>` : null}`,
    },
    { title: 'Steps', className: 'num', key: 'steps' },
    {
      title: 'Inputs',
      render: (/** @type {any} */ s) => (s.inputs || []).map((/** @type {any} */ i) => i.name).join(', ') || 'none',
    },
    { title: 'Session', key: 'session' },
    { title: 'Of', key: 'principal' },
    { title: 'Stored', render: (/** @type {any} */ s) => html`<${Time} at=${s.time} />` },
    {
      title: '',
      render: (/** @type {any} */ s) =>
        html`<${Link} class="button" to="plans/new"
          query=${{ saved: s.name, session: s.session, principal: s.principal, foreign: s.own ? undefined : '1' }}
          aria-label=${'Run @' + s.name} data-testid=${'run-saved-' + s.name}>Run<//>`,
    },
  ]} /></div>
    ${data?.more ? html`<p class="soft">There are more values than were looked through; those of sessions used last are shown.</p>` : null}`;
}
