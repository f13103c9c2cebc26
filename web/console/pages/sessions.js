// Sessions: who has which, what they hold; end them, take them away.
import { html, useEffect } from '../lib/html.js';
import { api, ask } from '../lib/api.js';
import { listen } from '../lib/events.js';
import { Link, narrow, address } from '../lib/router.js';
import { Page, Table, Trouble, useApi, Button, Search, Time, Badge, bytes } from '../lib/ui.js';
import { Pager, Sure } from '../lib/more.js';
import { save } from '../lib/save.js';

const size = 50;

/** What a session holds besides values. @param {any} s */
const also = (s) =>
  [
    s.conversation ? 'chat' : '',
    s.runs ? `${s.runs} ${s.runs === 1 ? 'run' : 'runs'}` : '',
    s.tasks ? `${s.tasks} ${s.tasks === 1 ? 'task' : 'tasks'}` : '',
  ]
    .filter(Boolean)
    .join(', ');

/** @param {{query: Record<string, string>}} props */
export function Sessions({ query }) {
  const offset = Number(query.offset) || 0;
  const { data, error, again } = useApi(
    address('', { search: query.search, offset: String(offset), limit: String(size) }).replace(
      '/console/',
      '/api/v1/sessions',
    ),
    5000,
  );
  useEffect(
    () =>
      listen((e) => {
        if (/^session\./.test(e.type)) again();
      }, false),
    [],
  );
  const of = (/** @type {any} */ s) => '/api/v1/sessions/' + encodeURIComponent(s.name);
  const whose = (/** @type {any} */ s) => '?principal=' + encodeURIComponent(s.principal);
  const end = async (/** @type {any} */ s) => {
    await api(of(s) + whose(s), { method: 'DELETE' });
    again();
  };
  const take = async (/** @type {any} */ s) =>
    save(s.name + '.json', await (await ask(of(s) + '/export' + whose(s))).blob());
  return html`<${Page} title="Sessions" actions=${html`<${Search} label="Search sessions" value=${query.search || ''}
    onChange=${(/** @type {string} */ v) => narrow({ search: v, offset: undefined })} data-testid="search" />`}>
    <${Trouble} error=${error} />${
      data
        ? html`<${Table} rows=${data.sessions}
          empty=${query.search ? 'No session has that in its name.' : 'No session holds anything yet.'}
          rowKey=${(/** @type {any} */ s) => s.principal + '/' + s.name} columns=${[
            {
              title: 'Name',
              render: (/** @type {any} */ s) =>
                html`<${Link} to=${'context/' + encodeURIComponent(s.name)} query=${{ principal: s.principal }}
                  data-testid=${'session-' + s.name}>${s.name}<//>${s.held ? html` <${Badge} kind="good">in use<//>` : null}`,
            },
            { key: 'principal', title: 'Of' },
            { key: 'values', title: 'Values', className: 'num' },
            { title: 'Also', render: (/** @type {any} */ s) => also(s) },
            { title: 'Size', className: 'num', render: (/** @type {any} */ s) => bytes(s.bytes) },
            { title: 'Began', render: (/** @type {any} */ s) => html`<${Time} at=${s.created} />` },
            { title: 'Last use', render: (/** @type {any} */ s) => html`<${Time} at=${s.used} />` },
            {
              title: 'Switched',
              render: (/** @type {any} */ s) =>
                Object.entries(s.modules || {})
                  .map(([m, on]) => `${m} ${on ? 'on' : 'off'}`)
                  .join(', '),
            },
            {
              title: '',
              className: 'nowrap',
              render: (/** @type {any} */ s) =>
                html`<${Button} onClick=${() => take(s)} data-testid=${'export-' + s.name}
                  aria-label=${'Export ' + s.name}>Export<//> <${Sure} what=${'End ' + s.name} label="End" onClick=${() => end(s)}
                  testid=${'end-' + s.name} />`,
            },
          ]} />
    <${Pager} offset=${offset} size=${size} total=${data.total} />`
        : null
    }<${Connected} /><//>`;
}

/** Who is connected now. Nothing is shown if nobody is. */
function Connected() {
  const { data } = useApi('/api/v1/connections?limit=100', 5000);
  if (!data?.total) return null;
  return html`<h2>Connected now</h2><div data-testid="connected"><${Table} rows=${data.connections}
    rowKey=${(/** @type {any} */ c) => [c.id, c.kind, c.principal, c.connectedAt].join(' ')} columns=${[
      { key: 'kind', title: 'Kind' },
      { key: 'principal', title: 'Principal' },
      { key: 'session', title: 'Session' },
      { title: 'At', render: (/** @type {any} */ c) => c.agent || c.face || '' },
      { title: 'Since', render: (/** @type {any} */ c) => html`<${Time} at=${c.connectedAt} />` },
      { title: 'Last active', render: (/** @type {any} */ c) => html`<${Time} at=${c.lastActiveAt} />` },
      { key: 'userAgent', title: 'Client' },
    ]} /></div>${data.total > data.connections.length ? html`<p class="soft">${data.total} are connected; the longest of them are shown.</p>` : null}`;
}
