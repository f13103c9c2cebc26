// Servers: what each is, how it does, what it said last.
import { html } from '../lib/html.js';
import { go } from '../lib/router.js';
import { Page, Table, State, Trouble, useApi, Empty } from '../lib/ui.js';
import { Json } from '../lib/json.js';

/** @param {{rest: string[]}} props */
export function Servers({ rest }) {
  const { data, error } = useApi('/api/v1/servers', 3000);
  const servers = data?.servers || [];
  const shown = servers.find((/** @type {any} */ s) => s.name === rest[0]);
  return html`<${Page} title="Servers"><${Trouble} error=${error} />
    <div class=${shown ? 'split' : ''}><${Table} rows=${servers} empty="No server is configured: write one under servers in stoa.yaml." selected=${rest[0]} onRow=${(/** @type {any} */ s) => go('servers/' + encodeURIComponent(s.name))} columns=${[
      { key: 'name', title: 'Name' }, { title: 'State', render: (/** @type {any} */ s) => html`<${State} is=${s.state} />` },
      { key: 'transport', title: 'By' }, { title: 'Era', render: (/** @type {any} */ s) => [s.eras].flat().join(', ') }, { key: 'tools', title: 'Tools', className: 'num' }]} />
    ${rest[0] && data && !shown ? html`<${Empty}>There is no server ${rest[0]}.<//>` : null}
    ${shown ? html`<section class="side" aria-label=${shown.name}><h2>${shown.name} <${State} is=${shown.state} /></h2>
      ${shown.error ? html`<${Trouble} error=${{ message: shown.error }} />` : null}
      ${shown.stderr?.length ? html`<h2>Last error output</h2><pre>${shown.stderr.join('\n')}</pre>` : null}
      <h2>All of it</h2><${Json} value=${shown} /></section>` : null}</div><//>`;
}
