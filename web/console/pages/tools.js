// Tools: all tools of all servers in one table, which the hub pages and
// filters, and a panel to run one.
import { html } from '../lib/html.js';
import { go, narrow } from '../lib/router.js';
import { Page, Table, Trouble, Badge, Search, useApi, took, Side } from '../lib/ui.js';
import { Run } from './tools_run.js';
import { Risk, Policy } from './tools_risk.js';
import { Changes, Mark } from './tools_pin.js';

const size = 50;

/** @param {{rest: string[], query: Record<string, string>}} props */
export function Tools({ rest, query }) {
  const offset = Math.max(0, Number(query.offset) || 0);
  const ask = new URLSearchParams({ offset: String(offset), limit: String(size) });
  for (const k of ['filter', 'upstream', 'risk', 'sort']) if (query[k]) ask.set(k, query[k]);
  const { data, error, again } = useApi('/api/v1/tools?' + ask, 5000);
  const tool = rest[0];
  const { call: _, ...listed } = query;
  return html`<${Page} title="Tools"><${Trouble} error=${error} />${tool ? null : html`<${Changes} done=${again} />`}
    <div class=${tool ? 'split tools' : ''}><section aria-label="All tools">
      <${Filters} query=${query} upstreams=${data?.upstreams || {}} />
      ${
        data
          ? html`<${Table} rows=${data.tools} rowKey=${(/** @type {any} */ r) => r.name} selected=${tool}
            empty=${data.all ? 'No tool is like that.' : 'No server offers a tool.'}
            onRow=${(/** @type {any} */ r) => go('tools/' + encodeURIComponent(r.name), listed)} columns=${columns(!!tool)} />
      <${Pager} offset=${offset} shown=${data.tools.length} total=${data.total} all=${data.all} />`
          : null
      }</section>
    ${tool ? html`<${Side} label=${tool} back="tools" query=${listed}><${Run} key=${tool} name=${tool} query=${query} />
    <//>` : null}</div><//>`;
}

/** @param {boolean} short */
function columns(short) {
  const name = {
    title: 'Tool',
    render: (
      /** @type {any} */ r,
    ) => html`<div class="mono">${r.name}</div>${short || !r.description ? null : html`<div class="soft clip">
      ${r.title ? r.title + ': ' : ''}${r.description}
      </div>`}${r.stale ? html`<${Badge}
      kind="warn">not connected<//>` : null}
    ${r.breaker ? html`<${Badge} kind="bad">breaker ${r.breaker}<//>` : null}<${Mark} pin=${r.pin} />`,
  };
  const risk = {
    title: 'Risk',
    render: (/** @type {any} */ r) => html`<${Risk} is=${r.risk} /><${Policy} policy=${r.policy} />`,
  };
  const calls = { title: 'Calls', className: 'num', render: (/** @type {any} */ r) => r.calls || '' };
  if (short) return [name, risk, calls];
  return [
    name,
    { title: 'Server', key: 'upstream' },
    risk,
    calls,
    {
      title: 'Failed',
      className: 'num',
      render: (/** @type {any} */ r) =>
        r.failed ? html`<span class="failed">${r.failed} (${Math.round((100 * r.failed) / r.calls)} %)</span>` : '',
    },
    { title: 'Takes', className: 'num', render: (/** @type {any} */ r) => (r.calls ? took(r.mean_us) : '') },
  ];
}

/** @param {{query: Record<string, string>, upstreams: Record<string, number>}} props */
function Filters({ query, upstreams }) {
  const set = (/** @type {string} */ k) => (/** @type {any} */ e) => narrow({ [k]: e.target.value, offset: undefined });
  return html`<div class="bar filters"><${Search} label="Filter" data-testid="filter" value=${query.filter || ''}
    onChange=${(/** @type {string} */ v) => narrow({ filter: v, offset: undefined })} />
    <label>Server <select data-testid="upstream" value=${query.upstream || ''} onChange=${set('upstream')}>
    <option value="">all</option>${Object.keys(
      upstreams,
    )
      .sort()
      .map((u) => html`<option value=${u}>${u} (${upstreams[u]})</option>`)}</select></label>
    <label>Risk <select data-testid="risk" value=${query.risk || ''} onChange=${set('risk')}><option value="">any</option>
    ${['read-only', 'additive', 'destructive', 'unsaid'].map((r) => html`<option value=${r}>${r}</option>`)}</select></label>
    <label>By <select data-testid="sort" value=${query.sort || ''} onChange=${set('sort')}><option value="">name</option>
    <option value="calls">most calls</option><option value="failed">most failures</option><option value="latency">slowest</option>
    </select></label></div>`;
}

/** @param {{offset: number, shown: number, total: number, all: number}} props */
function Pager({ offset, shown, total, all }) {
  const to = (/** @type {number} */ n) => narrow({ offset: n > 0 ? String(n) : undefined });
  return html`<div class="bar pager" role="navigation" aria-label="Pages of tools">
    <button type="button" data-testid="before" disabled=${offset === 0} onClick=${() => to(offset - size)}>Before</button>
    <span data-testid="count">${total ? `${offset + 1}–${offset + shown}` : '0'} of ${total}${total < all ? ` (of ${all})` : ''}
    </span>
    <button type="button" data-testid="next" disabled=${offset + shown >= total} onClick=${() => to(offset + size)}>Next</button>
    </div>`;
}
