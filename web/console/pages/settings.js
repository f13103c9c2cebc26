// Settings: the config in effect, with where each value is from; and what is
// switched on.
import { html } from '../lib/html.js';
import { api, signOut } from '../lib/api.js';
import { narrow } from '../lib/router.js';
import { Page, Table, Trouble, useApi, Button, Search, Badge, Copy, Parts, Time } from '../lib/ui.js';

/** The value that a JSON pointer names. @param {any} config @param {string} pointer */
function at(config, pointer) {
  return pointer
    .split('/')
    .slice(1)
    .reduce((v, step) => v?.[step.replaceAll('~1', '/').replaceAll('~0', '~')], config);
}

/** @param {string} pointer */
const spoken = (pointer) => pointer.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~');

/** @param {any} value */
const written = (value) => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));

/** Where a value is from: in one line, where it fits. @param {{of: string}} props */
function Origin({ of }) {
  if (of === 'default') return html`<span class="soft">default</span>`;
  return html`<span class=${of.length < 70 ? 'whole' : ''}><${Parts} text=${of} /></span>`;
}

/** The browsers that are signed in. */
function SignIns() {
  const { data, error, again } = useApi('/api/v1/sign-ins', 5000);
  const end = async (/** @type {any} */ one) => {
    if (one.current) return signOut();
    await api('/api/v1/sign-ins/' + encodeURIComponent(one.id), { method: 'DELETE' });
    again();
  };
  return html`<h2>Who is signed in</h2><${Trouble} error=${error} />
    ${
      data
        ? html`<${Table} rows=${data.signIns} rowKey=${(/** @type {any} */ one) => one.id} columns=${[
            {
              title: 'Who',
              render: (/** @type {any} */ one) =>
                html`${one.name} ${one.current ? html`<${Badge} kind="good">this browser<//>` : null}`,
            },
            { key: 'browser', title: 'Browser' },
            { title: 'Since', render: (/** @type {any} */ one) => html`<${Time} at=${one.created} />` },
            { title: 'Until', render: (/** @type {any} */ one) => html`<${Time} at=${one.expires} />` },
            {
              title: '',
              render: (/** @type {any} */ one) =>
                html`<${Button} onClick=${() => end(one)} data-testid=${'sign-out-' + one.id}
                  aria-label=${'Sign out ' + one.name + ', ' + one.browser}>Sign out<//>`,
            },
          ]} /><p><${Button} danger onClick=${() => signOut(true)} data-testid="sign-out-everywhere">Sign out everywhere<//>
          <span class="soft"> ends all that are yours, this one too.</span></p>`
        : null
    }`;
}

/** @param {{query: Record<string, string>}} props */
export function Settings({ query }) {
  const { data, error } = useApi('/api/v1/config', 4000);
  const modules = useApi('/api/v1/modules', 5000);
  const needle = (query.search || '').toLowerCase();
  const rows = Object.entries(data?.origins || {})
    .map(([pointer, origin]) => ({ name: spoken(pointer), origin, value: at(data.config, pointer) }))
    .filter(
      (r) =>
        (!needle || (r.name + ' ' + JSON.stringify(r.value) + ' ' + r.origin).toLowerCase().includes(needle)) &&
        (query.set !== 'yes' || r.origin !== 'default'),
    )
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const turn = async (/** @type {any} */ m) => {
    await api('/api/v1/modules/' + encodeURIComponent(m.name), { method: 'PUT', body: { on: !m.on } });
    modules.again();
  };
  return html`<${Page} title="Settings" actions=${html`<${Search} label="Search settings" value=${query.search || ''}
    onChange=${(/** @type {string} */ v) => narrow({ search: v })} data-testid="search" />
      <button type="button" aria-pressed=${query.set === 'yes'} data-testid="set"
      onClick=${() => narrow({ set: query.set === 'yes' ? undefined : 'yes' })}>Only what was set</button> ${data ? html`<${Copy}
      text=${JSON.stringify(data.config, null, 2)} label="Copy config" />` : null}`}>
    <${Trouble} error=${error} /><p
    class="soft">This is the config in effect. A change of its file is taken up by itself; secrets are never shown.</p>
    ${
      data?.refused
        ? html`<div class="trouble" role="alert" data-testid="refused"><strong>The file was changed, and is not taken up</strong>
          ${data.refused.map((/** @type {any} */ p) => html`<span>
          ${p.file ? p.file + (p.line ? ':' + p.line : '') + ': ' : ''}${p.text}${p.hint ? '; ' + p.hint : ''}</span>`)}</div>`
        : null
    }
    ${
      data
        ? html`<${Table} rows=${rows} empty="No setting is like that." columns=${[
            { title: 'Setting', render: (/** @type {any} */ r) => html`<code><${Parts} text=${r.name} /></code>` },
            {
              title: 'Value',
              render: (/** @type {any} */ r) => html`<span class="mono"><${Parts} text=${written(r.value)} /></span>`,
            },
            { title: 'From', render: (/** @type {any} */ r) => html`<${Origin} of=${r.origin} />` },
          ]} />`
        : null
    }
    <h2>Modules and servers</h2><${Trouble} error=${modules.error} />
    ${
      modules.data
        ? html`<${Table} rows=${modules.data.modules} columns=${[
            { key: 'name', title: 'Name' },
            { key: 'kind', title: 'Kind' },
            { key: 'tools', title: 'Tools', className: 'num' },
            {
              title: 'State',
              render: (/** @type {any} */ m) =>
                m.failed
                  ? html`<${Badge} kind="bad">${m.failed}<//>`
                  : html`<${Badge} kind=${m.on ? 'good' : 'calm'}>${m.on ? 'on' : 'off'}<//>`,
            },
            {
              title: '',
              render: (/** @type {any} */ m) =>
                m.failed
                  ? null
                  : html`<${Button} onClick=${() => turn(m)} data-testid=${'switch-' + m.name}
                    aria-label=${(m.on ? 'Switch off ' : 'Switch on ') + m.name}>${m.on ? 'Switch off' : 'Switch on'}<//>`,
            },
          ]} />`
        : null
    }<${SignIns} /><//>`;
}
