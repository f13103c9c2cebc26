// Home: what needs somebody, and how the hub does.
import { html, useEffect, useMemo } from '../lib/html.js';
import { api } from '../lib/api.js';
import { listen } from '../lib/events.js';
import { Link } from '../lib/router.js';
import { Page, Trouble, Empty, Badge, State, Button, Time, useApi, useSeen } from '../lib/ui.js';
import { Tree } from '../lib/json.js';
import { Plot } from '../lib/plot.js';

const day = 24 * 3600 * 1000;

/**
 * What the hub counted, as lines over time: seconds, failures and calls a second, and how long 99, 95 and 50 of 100 took at most.
 * @param {any} pulse
 */
function series(pulse) {
  if (!pulse) return { calls: [[], [], []], times: [[], [], [], []] };
  const seconds = pulse.stepMs / 1000, end = Date.parse(pulse.end) / 1000, n = pulse.calls.length;
  const rate = (/** @type {number} */ v) => v / seconds;
  const ms = (/** @type {number} */ us) => (us ? us / 1000 : null);
  const at = pulse.calls.map((/** @type {number} */ _, /** @type {number} */ i) => end - (n - i) * seconds);
  return { calls: [at, pulse.failed.map(rate), pulse.calls.map(rate)], times: [at, pulse.p99_us.map(ms), pulse.p95_us.map(ms), pulse.p50_us.map(ms)] };
}

const rates = [{ label: 'failed', colour: '--bad', bars: true }, { label: 'calls', colour: '--busy' }];
const shares = [{ label: '99 of 100 within', colour: '--bad' }, { label: '95 of 100', colour: '--warn' }, { label: 'half of them', colour: '--good' }];

/** The plots. @param {{pulse: any}} props */
function Plots({ pulse }) {
  // The hub's numbers change by the step; drawing them again in between would show the same.
  const { calls, times } = useMemo(() => series(pulse), [pulse?.end]);
  return html`<div class="plots"><${Plot} label="Calls per second" testid="plot-calls" data=${calls} lines=${rates} />
    <${Plot} label="Time of calls, ms" testid="plot-took" data=${times} lines=${shares} /></div>`;
}

/** Whether somebody should look at a run: it waits for somebody, or went wrong not long ago. @param {any} r */
const halted = (r) => ['paused', 'waiting'].includes(r.status) || ['stopped', 'failed'].includes(r.status) && Date.now() - Date.parse(r.ended || r.began) < day;

/** A list whose end is told. @param {any[]} all @param {number} most */
const some = (all, most) => ({ shown: all.slice(0, most), more: Math.max(0, all.length - most) });

export function Home() {
  const servers = useApi('/api/v1/servers', 3000), runs = useApi('/api/v1/runs', 3000), pulse = useApi('/api/v1/pulse', 2000);
  useEffect(() => listen((e) => {
    if (e.type === 'upstream.state' || e.type === 'health') servers.again();
    else if (/^run\./.test(e.type)) runs.again();
    else if (e.type === 'error') pulse.again();
  }, false), []);
  // Whoever waits for approvals counts as being there to be asked; a page in
  // the background is nobody.
  const approvals = useApi(useSeen() ? '/api/v1/approvals?wait=1s' : '/api/v1/approvals', 1500);
  /** @type {any[]} */ const all = servers.data?.servers || [];
  const bad = some(all.filter((s) => s.error || s.state === 'failed' || s.health?.length), 20);
  const open = some(all.filter((s) => s.breaker && s.breaker !== 'closed' || s.openTools), 20);
  const still = some((runs.data?.runs || []).filter(halted), 20);
  const asked = approvals.data?.approvals || [];
  const calm = servers.data && runs.data && !bad.shown.length && !open.shown.length && !still.shown.length && !asked.length;
  const more = bad.more + open.more + still.more;
  return html`<${Page} title="Home"><${Trouble} error=${servers.error || runs.error || pulse.error || approvals.error} />
    <div class="cards figures">
      <${Figure} to="servers" testid="up" n=${servers.data ? `${all.filter((s) => s.state === 'connected').length} of ${all.length}` : '…'}>servers connected<//>
      <${Figure} to="errors" testid="errors" n=${pulse.data?.errors ?? '…'}>errors this minute<//>
      <${Figure} to="plans" testid="halted" n=${runs.data ? still.shown.length + still.more : '…'}>runs halted<//>
      <${Figure} testid="asked" n=${approvals.data ? asked.length : '…'}>calls wait for you<//></div>
    <h2>Needs attention</h2>${calm ? html`<${Empty}>Nothing.<//>` : null}
    ${asked.slice(0, 20).map((/** @type {any} */ a) => html`<${Approval} key=${a.id} of=${a} again=${approvals.again} />`)}
    <ul class="attention" data-testid="attention">
      ${bad.shown.map((s) => html`<li key=${'s' + s.name}><${State} is=${s.state} /> <${Link} to=${'servers/' + encodeURIComponent(s.name)} data-testid=${'bad-' + s.name}>${s.name}<//> ${s.error || s.health.map((/** @type {any} */ x) => x.text).join('; ')}</li>`)}
      ${open.shown.map((s) => html`<${Breaker} key=${'b' + s.name} of=${s} />`)}
      ${still.shown.map((r) => html`<li key=${'r' + r.id}><${State} is=${r.status} /> <${Link} to=${'plans/' + encodeURIComponent(r.id)} data-testid=${'run-' + r.id}>${r.title || r.id}<//> after ${r.done} of ${r.steps} steps${r.session ? ` in ${r.session}` : ''}${r.reason ? ': ' + r.reason : ''} <span class="soft"><${Time} at=${r.ended || r.began} /></span></li>`)}
      ${more ? html`<li class="soft">… and ${more} more</li>` : null}</ul>
    <${Plots} pulse=${pulse.data} /><//>`;
}

/** A number that says how things are, and leads to why. @param {{n: any, to?: string, testid: string, children?: any}} props */
function Figure({ n, to, testid, children }) {
  const text = html`<strong data-testid=${testid}>${n}</strong> ${children}`;
  return html`<div class="card">${to === undefined ? text : html`<${Link} to=${to} class="quiet">${text}<//>`}</div>`;
}

/** A server, or tools of one, that calls are kept from. @param {{of: any}} props */
function Breaker({ of }) {
  if (of.breaker && of.breaker !== 'closed') {
    return html`<li><${Badge} kind="bad">breaker ${of.breaker}<//> <${Link} to=${'servers/' + encodeURIComponent(of.name)} data-testid=${'breaker-' + of.name}>${of.name}<//> is left alone for a while, as it failed too often</li>`;
  }
  const one = of.openTools === 1;
  const server = html`<${Link} to="tools" query=${{ upstream: of.name, sort: 'failed' }} data-testid=${'breaker-' + of.name}>${of.name}<//>`;
  return html`<li><${Badge} kind="bad">breaker open<//> ${one ? 'One tool' : of.openTools + ' tools'} of ${server} ${one ? 'is' : 'are'} left alone for a while, having failed too often</li>`;
}

/** A call that waits for a person. @param {{of: any, again: () => void}} props */
function Approval({ of, again }) {
  const decide = (/** @type {string} */ decision) => async () => {
    try { await api('/api/v1/approvals/' + encodeURIComponent(of.id), { method: 'POST', body: { decision, remember: 'once' } }); } finally { again(); }
  };
  return html`<section class="card approval" aria-label=${'Approval of ' + of.tool} data-testid="approval">
    <div class="bar"><${Badge} kind="warn">asks<//> <strong class="mono">${of.tool}</strong> <span class="soft">for ${of.principal}${of.session ? ` in ${of.session}` : ''}, until <${Time} at=${of.expires} /></span></div>
    <p>${of.reason}</p><div class="json"><${Tree} value=${of.sent ?? of.args} /></div>
    <div class="bar"><${Button} class="primary" data-testid="approve" onClick=${decide('approve')}>Approve<//><${Button} danger data-testid="deny" onClick=${decide('deny')}>Deny<//></div></section>`;
}
