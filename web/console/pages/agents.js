// Agents: who waits in which queue, and the tasks that outlive their requests.
import { html, useEffect } from '../lib/html.js';
import { api } from '../lib/api.js';
import { listen } from '../lib/events.js';
import { Link, go, narrow, address } from '../lib/router.js';
import { Page, Table, State, Trouble, useApi, Time, Side } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { Pager, Sure } from '../lib/more.js';
import { Facts } from './servers.js';

const size = 50;
const phases = ['working', 'input_required', 'completed', 'failed', 'cancelled'];
const over = new Set(['completed', 'failed', 'cancelled']);

/** An agent to which nothing is connected is there all the same: it is reached when it is asked. @param {string} state */
const resting = (state) => (state === 'disconnected' ? 'at rest' : state);

/** @param {{rest: string[], query: Record<string, string>}} props */
export function Agents({ rest, query }) {
  const { data, error, again } = useApi('/mcps', 3000);
  const offset = Number(query.offset) || 0;
  const tasks = useApi(
    address('', {
      upstream: query.upstream,
      status: query.status,
      newest: 'true',
      offset: String(offset),
      limit: String(size),
    }).replace('/console/', '/api/v1/tasks'),
    3000,
  );
  useEffect(
    () =>
      listen((e) => {
        if (/^task\./.test(e.type)) tasks.again();
        if (/^upstream\./.test(e.type)) again();
      }, false),
    [],
  );
  const agents = data?.agents || [];
  const keep = { upstream: query.upstream, status: query.status, offset: query.offset };
  return html`<${Page} title="Agents"><${Trouble} error=${error} />
    ${
      data
        ? html`<${Table} rows=${agents} empty="There is no agent: every server is one, and those under agents in the config are."
          columns=${[
            {
              title: 'Name',
              render: (/** @type {any} */ a) =>
                html`<${Link} to="agents" query=${{ upstream: a.name }}>${a.title || a.name}<//>`,
            },
            { title: 'State', render: (/** @type {any} */ a) => html`<${State} is=${resting(a.state)} />` },
            { key: 'running', title: 'Running', className: 'num' },
            { key: 'queued', title: 'Waiting', className: 'num' },
            {
              title: 'Queue',
              render: (/** @type {any} */ a) =>
                a.queue
                  ? html`<span data-testid=${'queue-' + a.name}><${Queue} q=${a.queue} /></span>`
                  : html`<span class="soft">none: every call runs at once</span>`,
            },
            { title: 'Address', render: (/** @type {any} */ a) => html`<code>${a.url}</code>` },
          ]} />`
        : null
    }
    <header class="page"><h2>Tasks</h2><div class="actions">
    <label>Of <select value=${query.upstream || ''}
    onChange=${(/** @type {any} */ e) => narrow({ upstream: e.target.value, offset: undefined })}><option value="">all</option>
    ${agents.map((/** @type {any} */ a) => html`<option value=${a.name}>${a.name}</option>`)}</select></label>
      <label>Which are <select value=${query.status || ''} data-testid="status"
      onChange=${(/** @type {any} */ e) => narrow({ status: e.target.value, offset: undefined })}>
      <option value="">anything</option>${phases.map((p) => html`<option value=${p}>${p}</option>`)}</select></label></div>
      </header>
    <${Trouble} error=${tasks.error} /><div class=${rest[0] ? 'split' : ''}>${
      tasks.data
        ? html`<div><${Table} rows=${tasks.data.tasks} empty="There are no such tasks." rowKey=${(/** @type {any} */ t) => t.task}
          selected=${rest[0]} onRow=${(/** @type {any} */ t) => go('agents/' + t.task, keep)} columns=${[
            {
              title: 'Task',
              render: (/** @type {any} */ t) =>
                html`<${Link} to=${'agents/' + t.task} query=${keep} data-testid="task">${t.upstream}:${t.tool}<//>
                  <div class="soft mono">${t.task}</div>`,
            },
            { title: 'State', render: (/** @type {any} */ t) => html`<${State} is=${t.status} />` },
            { title: 'Says', key: 'message' },
            { title: 'Began', render: (/** @type {any} */ t) => html`<${Time} at=${t.created} />` },
          ]} /><${Pager} offset=${offset} size=${size} total=${tasks.data.total} /></div>`
        : null
    }
    ${rest[0] ? html`<${Task} key=${rest[0]} id=${rest[0]} query=${keep} />` : null}</div><//>`;
}

/** How full a queue is. @param {{q: any}} props */
function Queue({ q }) {
  return html`<span>${q.running} of ${q.concurrency ?? q.limit ?? '?'} run, ${q.queued} of ${q.capacity ?? '?'} wait</span> ${q.capacity ? html`<meter
    min="0" max=${q.capacity} high=${q.capacity * 0.8} value=${q.queued} aria-label="Waiting"></meter>` : null}`;
}

/** @param {{id: string, query: any}} props */
function Task({ id, query }) {
  const { data, error, again } = useApi('/api/v1/tasks/' + encodeURIComponent(id), 2000);
  useEffect(
    () =>
      listen((e) => {
        if (e.task === id) again();
      }, false),
    [id],
  );
  if (!data)
    return html`<${Side} label="Task" back="agents" query=${query}><h2>Task</h2><${Trouble} error=${error} /><//>`;
  const t = data.task;
  const cancel = async () => {
    await api('/api/v1/tasks/' + encodeURIComponent(id), { method: 'DELETE' });
    again();
  };
  return html`<${Side} label="Task" back="agents" query=${query}><header class="page"><h2>${t.tool} <${State} is=${t.status} />
    </h2><div class="actions">${over.has(t.status) ? null : html`<${Sure} what="Cancel this task" label="Cancel" onClick=${cancel}
    testid="cancel" />`}</div></header>
    <${Trouble} error=${error} /><${Facts} of=${[
      ['Task', html`<span class="mono">${t.task}</span>`],
      ['Agent', html`<${Link} to=${'servers/' + encodeURIComponent(t.upstream)}>${t.upstream}<//>`],
      ['For', t.principal],
      ['Session', t.session],
      ['Says', t.message],
      ['Began', html`<${Time} at=${t.created} />`],
      ['Changed', html`<${Time} at=${t.updated} />`],
      ['Kept until', html`<${Time} at=${t.expires} />`],
    ]} />
    ${t.inputRequests ? html`<h3>It asks</h3><${Json} value=${t.inputRequests} />` : null}
    ${t.error ? html`<h3>What went wrong</h3><${Json} value=${t.error} />` : null}
    ${t.result ? html`<h3>Result</h3><div data-testid="result"><${Json} value=${t.result} /></div>` : null}<//>`;
}
