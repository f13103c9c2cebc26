// Errors: what went wrong, grouped by code and tool, and the last of them whole.
import { html, useEffect } from '../lib/html.js';
import { ask } from '../lib/api.js';
import { listen } from '../lib/events.js';
import { Link, go, narrow, address } from '../lib/router.js';
import { Page, Table, Trouble, Empty, useApi, Badge, Button, Time, Copy } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { save } from '../lib/more.js';
import { Facts } from './servers.js';

const kinds = /** @type {Record<string, string>} */ ({ critical: 'bad', error: 'bad', warning: 'warn' });
const keyOf = (/** @type {any} */ g) => [g.code, g.upstream || '', g.tool || ''].join(' ');
/** @param {{rest: string[], query: Record<string, string>}} props */
export function Errors({ rest, query }) {
  const { data, error, again } = useApi('/api/v1/errors', 5000, 1000);
  useEffect(() => listen((e) => { if (e.type === 'error') again(); }, false), []);
  const groups = data?.groups || [], last = data?.last || [];
  const group = groups.find((/** @type {any} */ g) => keyOf(g) === query.group);
  const own = useApi(group ? address('', { code: group.code, upstream: group.upstream, tool: group.tool }).replace('/console/', '/api/v1/errors') : null, 5000);
  const shown = group ? own.data?.last || [] : last;
  const take = async () => save(await (await ask('/api/v1/errors/export')).blob(), 'stoa-errors.ndjson');
  return html`<${Page} title="Errors" actions=${html`<${Button} onClick=${take} data-testid="export">Export<//>`}><${Trouble} error=${error} />
    ${data ? html`<${Table} rows=${groups} empty="Nothing has gone wrong." rowKey=${keyOf} selected=${query.group} onRow=${(/** @type {any} */ g) => narrow({ group: query.group === keyOf(g) ? undefined : keyOf(g) })} columns=${[
      { title: 'Code', render: (/** @type {any} */ g) => html`<span data-testid=${'group-' + g.code}><${Badge} kind=${kinds[g.severity] || 'calm'}>${g.code}<//></span>` }, { title: 'Where', render: (/** @type {any} */ g) => [g.upstream, g.tool].filter(Boolean).join(':') || '—' },
      { title: 'What it said last', key: 'message' }, { key: 'count', title: 'Times', className: 'num' }, { title: 'Last hour', render: (/** @type {any} */ g) => html`<${Spark} of=${g.perMinute || []} />` },
      { title: 'First', render: (/** @type {any} */ g) => html`<${Time} at=${g.first} />` }, { title: 'Last', render: (/** @type {any} */ g) => html`<${Time} at=${g.last} />` }, { title: '', render: (/** @type {any} */ g) => html`<${Manual} code=${g.code} />` }]} />
    <header class="page"><h2>${group ? 'The last of ' + group.code : 'The last ' + shown.length}</h2><div class="actions">${group ? html`<button type="button" onClick=${() => narrow({ group: undefined })}>Show all</button>` : null}</div></header>
    <div class=${rest[0] ? 'split' : ''}><${Table} rows=${shown} empty="None of them is kept whole." selected=${rest[0]} onRow=${(/** @type {any} */ e) => go('errors/' + e.id, { group: query.group })} columns=${[
      { title: 'When', render: (/** @type {any} */ e) => html`<${Time} at=${e.time} />` }, { title: 'Code', render: (/** @type {any} */ e) => html`<${Badge} kind=${kinds[e.severity] || 'calm'}>${e.error.code}<//>` },
      { title: 'What', render: (/** @type {any} */ e) => html`<${Link} to=${'errors/' + e.id} query=${{ group: query.group }} data-testid="error">${e.error.message || e.error.code}<//>` }, { key: 'source', title: 'Met by' }]} />
    ${rest[0] ? html`<${One} key=${rest[0]} id=${rest[0]} held=${last.find((/** @type {any} */ e) => e.id === rest[0])} />` : null}</div>` : null}<//>`;
}

/** One error, whole. @param {{id: string, held: any}} props */
function One({ id, held }) {
  const { data, error } = useApi(held ? null : '/api/v1/errors/' + encodeURIComponent(id));
  const e = held || data?.error;
  if (!e) return html`<section class="side" aria-label="Error"><h2>${id}</h2><${Trouble} error=${error} /></section>`;
  const c = e.context || {};
  return html`<section class="side" aria-label="Error"><header class="page"><h2><${Badge} kind=${kinds[e.severity] || 'calm'}>${e.error.code}<//> ${e.error.message}</h2><div class="actions"><${Copy} text=${JSON.stringify(e, null, 2)} label="Copy all" /> <${Manual} code=${e.error.code} /></div></header>
    <${Facts} of=${[['Id', html`<span class="mono">${e.id}</span>`], ['When', html`<${Time} at=${e.time} />`], ['About', e.errorType], ['Severity', e.severity], ['Met by', e.source], ...Object.entries(c)]} />
    ${e.error.stack ? html`<details data-testid="stack"><summary>Stack</summary><pre>${e.error.stack}</pre></details>` : html`<${Empty}>It has no stack: it was not a mistake of the hub's.<//>`}
    <h3>All of it</h3><${Json} value=${e} /></section>`;
}

/** Where the manual says more. @param {{code: string}} props */
function Manual({ code }) {
  return html`<a href=${'https://github.com/stoahub/stoa/blob/main/docs/errors.md#' + code.toLowerCase()} target="_blank" rel="noreferrer noopener">Manual</a>`;
}

/** Counts by the minute. @param {{of: number[]}} props */
function Spark({ of }) {
  const most = Math.max(1, ...of);
  return html`<svg class="spark" viewBox=${`0 0 ${Math.max(of.length, 1) * 2} 20`} preserveAspectRatio="none" role="img" aria-label=${of.reduce((a, b) => a + b, 0) + ' in the last hour'}>${of.map((n, i) => n ? html`<rect x=${i * 2} width="1.6" y=${20 - Math.max(2, 20 * n / most)} height=${Math.max(2, 20 * n / most)} />` : null)}</svg>`;
}
