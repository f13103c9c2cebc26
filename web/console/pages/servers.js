// Servers: what each is, how it does, what it said last, and how what it offers
// has changed.
import { html, useEffect } from '../lib/html.js';
import { api } from '../lib/api.js';
import { listen } from '../lib/events.js';
import { go, Link } from '../lib/router.js';
import { Page, Table, State, Badge, Trouble, useApi, Empty, Button, Time, Pre, Side, many } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { Diff } from '../lib/diff.js';
import { plain } from '../lib/text.js';

const states = ['disconnected', 'connecting', 'connected', 'error', 'misconfigured'];

/** @param {{rest: string[]}} props */
export function Servers({ rest }) {
  const { data, error, again } = useApi('/api/v1/servers', 5000);
  useEffect(
    () =>
      listen((e) => {
        if (/^upstream\./.test(e.type)) again();
      }, false),
    [],
  );
  const servers = data?.servers || [];
  const name = rest[0];
  return html`<${Page} title="Servers"><${Trouble} error=${error} />
    ${data?.pool ? html`<p class="soft">
      ${many(data.pool.open, 'connection')} with those to built-in modules, ${data.pool.idle} idle ·
      ${' '}${many(data.pool.processes, 'process', 'processes')} · ${many(data.pool.unhealthy, 'failure')}</p>` : null}
    <div class=${name ? 'split' : ''}>${
      data
        ? html`<${Table} rows=${servers} empty="No server is configured: write one under servers in stoa.yaml." selected=${name}
          onRow=${(/** @type {any} */ s) => go('servers/' + encodeURIComponent(s.name))} columns=${[
            {
              title: 'Name',
              render: (/** @type {any} */ s) =>
                html`<${Link} to=${'servers/' + encodeURIComponent(s.name)} data-testid=${'server-' + s.name}>${s.title || s.name}
                  <//>`,
            },
            {
              title: 'State',
              render: (/** @type {any} */ s) =>
                html`<${State} is=${s.state} />
                  ${s.breaker && s.breaker !== 'closed' ? html` <${Badge} kind="warn">breaker ${s.breaker}<//>` : null}`,
            },
            { key: 'transport', title: 'By' },
            { title: 'Era', render: (/** @type {any} */ s) => (s.eras || []).join(', ') },
            { key: 'tools', title: 'Tools', className: 'num' },
            { key: 'running', title: 'Running', className: 'num' },
          ]} />`
        : null
    }
    ${name ? html`<${Server} key=${name} name=${name} />` : null}</div><//>`;
}

/** One server. @param {{name: string}} props */
function Server({ name }) {
  const { data, error, again } = useApi('/api/v1/servers/' + encodeURIComponent(name), 2000);
  useEffect(
    () =>
      listen((e) => {
        if (/^upstream\./.test(e.type) && e.upstream === name) again();
      }, false),
    [name],
  );
  if (!data) return html`<${Side} label=${name} back="servers"><h2>${name}</h2><${Trouble} error=${error} /><//>`;
  const s = data.server;
  const restart = async () => {
    await api('/api/v1/servers/' + encodeURIComponent(name) + '/restart', { method: 'POST' });
    again();
  };
  return html`<${Side} label=${name} back="servers">
    <header class="page"><h2>${s.title || s.name}</h2><div class="actions">
      ${s.transport === 'local' ? null : html`<${Button} onClick=${restart} data-testid="restart">Restart<//>`} <${Link}
      to="tools" query=${{ upstream: name }}>Its tools<//></div></header>
    <${Trouble} error=${error} />${s.error ? html`<${Trouble}
    error=${{ message: s.cause ? `${s.error}: ${s.cause}` : s.error, hint: [s.hint, attemptIn(s.retryInMs)].filter(Boolean).join(' ') }}
    />` : null}
    <${Machine} server=${s} /><${Before} name=${name} since=${s.since} />
    <${Facts} of=${[
      ['Transport', s.transport],
      ['Eras', (s.eras || []).join(', ')],
      ['Version', s.version],
      ['Speaks', versions(data.versions)],
      [
        'Calls itself',
        data.info ? [data.info.title || data.info.name, data.info.version].filter(Boolean).join(' ') : '',
      ],
      ['Handshake', s.latencyMs ? s.latencyMs.toFixed(1) + ' ms' : ''],
      ['Breaker', s.breaker],
      ['Why the breaker is not closed', s.breakerError],
      ['Tools left alone', rested(s)],
      ['Running', String(s.running)],
      ['Waiting', String(s.queued)],
      [
        'Offers',
        [many(s.tools, 'tool'), many(s.prompts, 'prompt'), many(s.resources, 'resource'), many(s.templates, 'template')].join(', ') +
          (s.stale ? ' (as it said last)' : ''),
      ],
    ]} />
    ${s.health?.length ? html`<h3>Worth knowing</h3><ul>${s.health.map((/** @type {any} */ h) => html`<li><${Badge} kind="warn">
    ${h.code}<//> ${h.text}</li>`)}</ul>` : null}
    <h3>Connections and processes</h3>
    <${Table} rows=${data.connections} empty="There is none now; one is made when it is needed."
    rowKey=${(/** @type {any} */ c) => c.era + c.pid + c.since} columns=${[
      { key: 'era', title: 'Era' },
      { key: 'version', title: 'Version' },
      {
        title: 'Process',
        className: 'num',
        render: (/** @type {any} */ c) => (c.pid ? html`<span data-testid="pid">${c.pid}</span>` : '—'),
      },
      { title: 'Since', render: (/** @type {any} */ c) => html`<${Time} at=${c.since} />` },
      { key: 'busy', title: 'Calls', className: 'num' },
      { title: 'For', render: (/** @type {any} */ c) => (c.own ? 'one client' : 'all') },
    ]} />
    <h3>Capabilities</h3>${data.capabilities ? html`<div data-testid="capabilities"><${Json} value=${data.capabilities} />
    </div>` : html`<${Empty}>It has not said any.<//>`}
    ${data.instructions ? html`<h3>Instructions</h3><${Pre}>${data.instructions}<//>` : null}
    <h3>Changes of what it offers</h3><${Changes} changes=${data.changes} />
    ${s.transport === 'stdio' ? html`<h3>Last error output</h3>${s.stderr?.length ? html`<${Pre} data-testid="stderr">
    ${s.stderr.map(plain).join('\n')}<//>` : html`<${Empty}>It has written nothing to stderr.<//>`}` : null}
  <//>`;
}

/** Versions of the protocol, each in one piece. @param {string[]|undefined} all */
const versions = (all) =>
  all?.length ? all.map((v, i) => html`<span class="nowrap">${v}${i < all.length - 1 ? ',' : ''}</span> `) : '';

/** The tools that breakers of their own keep calls from. @param {any} s */
function rested(s) {
  const names = s.openNames || [],
    more = (s.openTools || 0) - names.length;
  const errors = s.openErrors || {};
  return names.map((/** @type {string} */ n) => (errors[n] ? `${n} (last failure: ${errors[n]})` : n)).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** When a server is tried again. @param {number} ms */
const attemptIn = (ms) => (ms ? `The next attempt is in ${Math.ceil(ms / 1000)} s.` : '');

/** Which of its states a server is in. @param {{server: any}} props */
function Machine({ server }) {
  return html`<ol class="machine" aria-label="State">
    ${states.map((one) => html`<li aria-current=${server.state === one ? 'step' : undefined}>
    ${server.state === one ? html`<${State} is=${one} /> <span class="soft">since <${Time} at=${server.since} />
    </span>` : html`<span class="soft">${one}</span>`}</li>`)}</ol>`;
}

/** The states it was in before. @param {{name: string, since: string}} props */
function Before({ name, since }) {
  const { data } = useApi(
    '/api/v1/events?types=upstream.state&wait=0s&limit=1000&upstream=' + encodeURIComponent(name) + '&after=0#' + since,
  );
  const steps = (data?.events || []).slice(-20).reverse();
  if (!steps.length) return null;
  return html`<details data-testid="states"><summary>Its last ${steps.length} changes of state</summary><ol class="log">
    ${steps.map((/** @type {any} */ e) => html`<li key=${e.seq}>
    <${Time} at=${e.time} /> ${e.data.before} → <${State} is=${e.data.state} /> ${e.data.error || ''}</li>`)}</ol></details>`;
}

/** @param {{of: [string, any][]}} props */
export function Facts({ of }) {
  return html`<dl class="facts">${of.filter(([, v]) => v !== '' && v != null).map(([k, v]) => html`<div><dt>${k}</dt><dd>${v}</dd>
    </div>`)}</dl>`;
}

const marks = /** @type {Record<string, string>} */ ({ added: 'good', removed: 'bad', changed: 'warn' });

/** @param {{changes: any[]}} props */
function Changes({ changes }) {
  if (!changes?.length) return html`<${Empty}>Nothing has changed since the hub read its lists first.<//>`;
  return changes.map(
    (
      c,
      i,
    ) => html`<details class="change" open=${i === 0} key=${c.time} data-testid="change"><summary><${Time} at=${c.time} /> · ${[
      'added',
      'removed',
      'changed',
    ]
      .map((what) => [what, c.items.filter((/** @type {any} */ x) => x.what === what).length])
      .filter(([, n]) => n)
      .map(([what, n]) => `${n} ${what}`)
      .join(', ')}${c.more ? ` and ${c.more} more` : ''}</summary>
    ${c.items.map(
      (
        /** @type {any} */ x,
      ) => html`<details class="item" open=${c.items.length < 4}><summary><${Badge} kind=${marks[x.what]}>${x.what}
        <//> ${x.kind} <code>${x.name}</code></summary>
      ${x.before || x.after ? html`<${Diff} before=${x.before} after=${x.after}
      />` : html`<${Empty}>Its definition is too long to be kept.<//>`}</details>`,
    )}</details>`,
  );
}
