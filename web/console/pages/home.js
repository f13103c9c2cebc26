// Home: what needs somebody, and how the hub does.
import { html, useMemo } from '../lib/html.js';
import { api } from '../lib/api.js';
import { Link } from '../lib/router.js';
import { Page, Trouble, Empty, Badge, State, Button, Time, useApi, useSeen } from '../lib/ui.js';
import { Tree } from '../lib/json.js';
import { Plot } from '../lib/plot.js';

/**
 * What the hub counted, as lines over time: seconds, calls and failures a second, and how long half and 99 of 100 took.
 * @param {any} pulse
 */
function series(pulse) {
  if (!pulse) return [[], [], [], [], []];
  const seconds = pulse.stepMs / 1000, end = Date.parse(pulse.end) / 1000, n = pulse.calls.length;
  const rate = (/** @type {number} */ v) => v / seconds;
  const ms = (/** @type {number} */ us) => (us ? us / 1000 : null);
  return [pulse.calls.map((/** @type {number} */ _, /** @type {number} */ i) => end - (n - i) * seconds),
    pulse.calls.map(rate), pulse.failed.map(rate), pulse.p50_us.map(ms), pulse.p99_us.map(ms)];
}

export function Home() {
  const servers = useApi('/api/v1/servers', 3000), runs = useApi('/api/v1/runs', 3000);
  // Whoever waits for approvals counts as being there to be asked; a page in
  // the background is nobody.
  const approvals = useApi(useSeen() ? '/api/v1/approvals?wait=1s' : '/api/v1/approvals', 1500);
  const pulse = useApi('/api/v1/pulse', 2000);
  // The hub's numbers change by the step; drawing them again in between would show the same.
  const data = useMemo(() => series(pulse.data), [pulse.data?.end]);
  const calls = useMemo(() => [data[0], data[1], data[2]], [data]), times = useMemo(() => [data[0], data[3], data[4]], [data]);
  const bad = (servers.data?.servers || []).filter((/** @type {any} */ s) => s.error || ['failed', 'error'].includes(s.state) || s.health?.length);
  const open = (servers.data?.servers || []).filter((/** @type {any} */ s) => s.breaker && s.breaker !== 'closed');
  const halted = (runs.data?.runs || []).filter((/** @type {any} */ r) => ['paused', 'waiting', 'stopped', 'failed'].includes(r.status)).slice(0, 20);
  const asked = approvals.data?.approvals || [];
  const calm = servers.data && !bad.length && !open.length && !halted.length && !asked.length;
  return html`<${Page} title="Home"><${Trouble} error=${servers.error} />
    <div class="cards figures"><div class="card"><strong data-testid="up">${(servers.data?.servers || []).filter((/** @type {any} */ s) => s.state === 'connected').length} of ${servers.data?.servers?.length ?? '…'}</strong> servers connected</div>
      <div class="card"><strong>${(data[1].at(-1) || 0).toFixed(1)}</strong> calls/s</div><div class="card"><strong data-testid="errors">${pulse.data?.errors ?? 0}</strong> errors this minute</div><div class="card"><strong>${asked.length}</strong> ${asked.length === 1 ? 'waits' : 'wait'} for you</div></div>
    <h2>Needs attention</h2>${calm ? html`<${Empty}>Nothing.<//>` : null}
    ${asked.map((/** @type {any} */ a) => html`<${Approval} key=${a.id} of=${a} again=${approvals.again} />`)}
    <ul class="attention" data-testid="attention">${bad.map((/** @type {any} */ s) => html`<li key=${'s' + s.name}><${State} is=${s.state} /> <${Link} to=${'servers/' + encodeURIComponent(s.name)}>${s.name}<//> ${s.error || (s.health || []).map((/** @type {any} */ x) => x.text).join('; ')}</li>`)}
      ${open.map((/** @type {any} */ s) => html`<li key=${'b' + s.name}><${Badge} kind="bad">breaker ${s.breaker}<//> <${Link} to=${'servers/' + encodeURIComponent(s.name)}>${s.name}<//> is left alone for a while, as it failed too often</li>`)}
      ${halted.map((/** @type {any} */ r) => html`<li key=${'r' + r.id}><${State} is=${r.status} /> <${Link} to=${'plans/' + encodeURIComponent(r.id)}>${r.title || r.id}<//> ${r.reason || ''}</li>`)}</ul>
    <div class="plots"><${Plot} label="Calls per second" data=${calls} lines=${[{ label: 'calls', colour: '--busy' }, { label: 'failed', colour: '--bad' }]} />
      <${Plot} label="Time of calls, ms" data=${times} lines=${[{ label: 'median', colour: '--good' }, { label: '99 of 100', colour: '--warn' }]} dots /></div><//>`;
}

/** A call that waits for a person. @param {{of: any, again: () => void}} props */
function Approval({ of, again }) {
  const decide = (/** @type {string} */ decision) => async () => { try { await api('/api/v1/approvals/' + encodeURIComponent(of.id), { method: 'POST', body: { decision, remember: 'once' } }); } finally { again(); } };
  return html`<section class="card approval" aria-label=${'Approval of ' + of.tool} data-testid="approval"><div class="bar"><${Badge} kind="warn">asks<//> <strong class="mono">${of.tool}</strong> <span class="soft">for ${of.principal}${of.session ? ` in ${of.session}` : ''}, until <${Time} at=${of.expires} /></span></div>
    <p>${of.reason}</p><div class="json"><${Tree} value=${of.sent ?? of.args} /></div><div class="bar"><${Button} class="primary" data-testid="approve" onClick=${decide('approve')}>Approve<//><${Button} danger data-testid="deny" onClick=${decide('deny')}>Deny<//></div></section>`;
}
