// Errors: what went wrong, grouped by code and tool, the last of them whole, and
// what each code means.
import { html, useEffect } from '../lib/html.js';
import { ask } from '../lib/api.js';
import { listen } from '../lib/events.js';
import { Link, go, narrow, address } from '../lib/router.js';
import { Page, Table, Trouble, Empty, useApi, Badge, Button, Time, Copy, Pre, Side } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { Pager } from '../lib/more.js';
import { save } from '../lib/save.js';
import { Facts } from './servers.js';

const size = 50; // groups of a page
const kinds = /** @type {Record<string, string>} */ ({ critical: 'bad', error: 'bad', warning: 'warn' });
const keyOf = (/** @type {any} */ g) => [g.code, g.upstream || '', g.tool || ''].join(' ');

/** @param {string} key */
const ofKey = (key) => {
  const [code, upstream, ...tool] = key.split(' ');
  return { code, upstream, tool: tool.join(' ') };
};

/** @param {{rest: string[], query: Record<string, string>}} props */
export function Errors({ rest, query }) {
  if (rest[0] === 'kind') return rest[1] ? html`<${Kind} key=${rest[1]} code=${rest[1]} />` : html`<${Kinds} />`;
  return html`<${Book} id=${rest[0]} query=${query} />`;
}

/** @param {{id?: string, query: Record<string, string>}} props */
function Book({ id, query }) {
  const offset = Number(query.offset) || 0;
  const { data, error, again } = useApi(`/api/v1/errors?stacks=false&groups=${size}&offset=${offset}`, 5000, 1000);
  useEffect(
    () =>
      listen((e) => {
        if (e.type === 'error') again();
      }, false),
    [],
  );
  const groups = data?.groups || [],
    last = data?.last || [];
  const group = query.group ? ofKey(query.group) : null; // it may be on another page
  const own = useApi(
    group ? address('', { ...group, stacks: 'false' }).replace('/console/', '/api/v1/errors') : null,
    5000,
  );
  const shown = group ? own.data?.last || [] : last;
  const take = async () => save('stoa-errors.ndjson', await (await ask('/api/v1/errors/export')).blob());
  const actions = html`<${Link} to="errors/kind">All codes<//> <${Button} onClick=${take} data-testid="export">Export<//>`;
  return html`<${Page} title="Errors" actions=${actions}><${Trouble} error=${error} />
    ${
      data
        ? html`<${Groups} groups=${groups} chosen=${query.group} />
          <${Pager} offset=${offset} size=${size} total=${data.groupsTotal} />
    ${
      groups.length
        ? html`<header class="page"><h2>${group ? 'The last of ' + group.code : 'The last ' + shown.length}</h2>
      <div class="actions">${group ? html`<button type="button"
      onClick=${() => narrow({ group: undefined })}>Show all</button>` : null}</div></header>`
        : null
    }
    <div class=${id ? 'split' : ''}>${groups.length ? html`<${Last} shown=${shown} id=${id} group=${query.group} />` : null}
    ${id ? html`<${One} key=${id} id=${id} group=${query.group} held=${last.find((/** @type {any} */ e) => e.id === id)}
    />` : null}</div>`
        : null
    }<//>`;
}

/** @param {{groups: any[], chosen?: string}} props */
function Groups({ groups, chosen }) {
  const choose = (/** @type {any} */ g) => narrow({ group: chosen === keyOf(g) ? undefined : keyOf(g) });
  return html`<${Table} rows=${groups} empty="Nothing has gone wrong." rowKey=${keyOf} selected=${chosen} onRow=${choose}
    columns=${[
    {
      title: 'Code',
      render: (/** @type {any} */ g) =>
        html`<span data-testid=${'group-' + g.code}><${Badge} kind=${kinds[g.severity] || 'calm'}>${g.code}<//></span>`,
    },
    { title: 'Where', render: (/** @type {any} */ g) => [g.upstream, g.tool].filter(Boolean).join(':') || '—' },
    { title: 'Said last', key: 'message', className: 'wide' },
    { key: 'count', title: 'Times', className: 'num' },
    { title: 'Last hour', render: (/** @type {any} */ g) => html`<${Spark} of=${g.perMinute || []} />` },
    { title: 'First', className: 'nowrap', render: (/** @type {any} */ g) => html`<${Time} at=${g.first} />` },
    { title: 'Last', className: 'nowrap', render: (/** @type {any} */ g) => html`<${Time} at=${g.last} />` },
    { title: '', className: 'nowrap', render: (/** @type {any} */ g) => html`<${Manual} code=${g.code} />` },
  ]} />`;
}

/** @param {{shown: any[], id?: string, group?: string}} props */
function Last({ shown, id, group }) {
  return html`<${Table} rows=${shown} empty="None of them is kept whole." selected=${id}
    onRow=${(/** @type {any} */ e) => go('errors/' + e.id, { group })} columns=${[
    { title: 'When', className: 'nowrap', render: (/** @type {any} */ e) => html`<${Time} at=${e.time} />` },
    {
      title: 'Code',
      render: (/** @type {any} */ e) => html`<${Badge} kind=${kinds[e.severity] || 'calm'}>${e.error.code}<//>`,
    },
    {
      title: 'What',
      className: 'wide',
      render: (/** @type {any} */ e) =>
        html`<${Link} to=${'errors/' + e.id} query=${{ group }} data-testid="error">${e.error.message || e.error.code}<//>`,
    },
    ...(id ? [] : [{ key: 'source', title: 'Met by' }]),
  ]} />`;
}

/** One error, whole. @param {{id: string, group?: string, held: any}} props */
function One({ id, group, held }) {
  const { data, error } = useApi('/api/v1/errors/' + encodeURIComponent(id));
  const e = data?.error || held; // the list has it without its stack
  if (!e)
    return html`<${Side} label="Error" back="errors" query=${{ group }}><h2>${id}</h2><${Trouble} error=${error} /><//>`;
  const c = e.context || {};
  return html`<${Side} label="Error" back="errors" query=${{ group }}><header class="page"><h2>
    <${Badge} kind=${kinds[e.severity] || 'calm'}>${e.error.code}<//> ${e.error.message}</h2>
      <div class="actions"><${Copy} text=${JSON.stringify(e, null, 2)} label="Copy all" /> <${Manual} code=${e.error.code} />
      </div></header>
    <${Facts} of=${[['Id', html`<span class="mono">${e.id}
    </span>`], ['When', html`<${Time} at=${e.time}
    />`], ['About', e.errorType], ['Severity', e.severity], ['Met by', e.source], ...Object.entries(c)]} />
    ${e.error.stack ? html`<details data-testid="stack"><summary>Stack</summary><${Pre}>${e.error.stack}<//>
    </details>` : data ? html`<${Empty}>It has no stack: it was not a mistake of the hub's.<//>` : null}
    <h3>All of it</h3><${Json} value=${e} /><//>`;
}

/** Where it says what a code means. @param {{code: string}} props */
function Manual({ code }) {
  return html`<${Link} to=${'errors/kind/' + encodeURIComponent(code)} data-testid="manual"
    aria-label=${'Manual: ' + code}>Manual<//>`;
}

const statuses = (/** @type {any} */ k) =>
  k.modernHttp ? `${k.http} (modern clients: ${k.modernHttp})` : String(k.http);

/** What a code means and what to do, for this version of the hub. @param {{code: string}} props */
function Kind({ code }) {
  const { data, error } = useApi('/api/v1/errors/kinds');
  const met = useApi('/api/v1/errors?limit=1&code=' + encodeURIComponent(code), 5000);
  const k = data?.kinds.find((/** @type {any} */ one) => one.code === code);
  const groups = met.data?.groups || [];
  return html`<${Page} title=${code} actions=${html`<${Link} to="errors">Errors<//> <${Link} to="errors/kind">All codes<//>`}>
    <${Trouble} error=${error} />
    ${k ? html`<p data-testid="meaning">${k.meaning}</p><h2>What to do</h2><p data-testid="advice">${k.hint}</p>` : null}
    ${
      k?.name
        ? html`<h2>How it is told</h2><${Facts} of=${[
            ['Kind', html`<code>${k.name}</code>`],
            ['Number', String(k.number)],
            ['Code for legacy clients', String(k.legacy)],
            ['Code for modern clients', String(k.modern)],
            ['HTTP status', statuses(k)],
            ['The same request may succeed later', k.retryable ? 'yes' : 'no'],
            ['A model can repair it', k.model ? 'yes: it is told as a result' : 'no'],
          ]} />`
        : null
    }
    ${data && !k ? html`<${Empty}>The hub has no such code of its own: it is the tool's that gave it, and what the tool said with it tells more.<//>` : null}
    <h2>Where it was met</h2><${Trouble} error=${met.error} />
    ${
      met.data
        ? html`<${Table} rows=${groups} empty="It has not been met." rowKey=${keyOf} columns=${[
            {
              title: 'Where',
              render: (/** @type {any} */ g) =>
                html`<${Link} to="errors" query=${{ group: keyOf(g) }} data-testid="met">
                  ${[g.upstream, g.tool].filter(Boolean).join(':') || 'the hub'}<//>`,
            },
            { title: 'Said last', key: 'message', className: 'wide' },
            { key: 'count', title: 'Times', className: 'num' },
            { title: 'Last', className: 'nowrap', render: (/** @type {any} */ g) => html`<${Time} at=${g.last} />` },
          ]} />`
        : null
    }<//>`;
}

/** All codes. */
function Kinds() {
  const { data, error } = useApi('/api/v1/errors/kinds');
  return html`<${Page} title="Codes of errors" actions=${html`<${Link} to="errors">Errors<//>`}><${Trouble} error=${error} />
    ${
      data
        ? html`<${Table} rows=${data.kinds} rowKey=${(/** @type {any} */ k) => k.code} columns=${[
            {
              title: 'Code',
              className: 'nowrap',
              render: (/** @type {any} */ k) => html`<${Link} to=${'errors/kind/' + k.code}>${k.code}<//>`,
            },
            { title: 'What it means', key: 'meaning', className: 'wide' },
            { title: 'What to do', key: 'hint', className: 'wide' },
          ]} />`
        : null
    }<//>`;
}

/** Counts by the minute. @param {{of: number[]}} props */
function Spark({ of }) {
  const most = Math.max(1, ...of);
  const bar = (/** @type {number} */ n) => Math.max(2, (20 * n) / most);
  return html`<svg class="spark" viewBox=${`0 0 ${Math.max(of.length, 1) * 2} 20`} preserveAspectRatio="none" role="img"
    aria-label=${of.reduce((a, b) => a + b, 0) + ' in the last hour'}>
    ${of.map((n, i) => (n ? html`<rect x=${i * 2} width="1.6" y=${20 - bar(n)} height=${bar(n)} />` : null))}</svg>`;
}
