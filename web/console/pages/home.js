// Home: what needs somebody, and how the hub does.
import { html, useEffect, useMemo, useState } from '../lib/html.js';
import { api } from '../lib/api.js';
import { listen } from '../lib/events.js';
import { Link } from '../lib/router.js';
import { Page, Trouble, Empty, Badge, State, Time, useApi, useSeen } from '../lib/ui.js';
import { Approval } from '../lib/approval.js';
import { Plot } from '../lib/plot.js';

const most = 20; // of each kind of what needs somebody

// Runs that somebody should look at: those that wait for somebody, or went wrong not long ago.
const halted = `/api/v1/runs?status=paused,waiting,stopped,failed&within=24h&limit=${most}`;

/**
 * What the hub counted, as lines over time: seconds, failures and calls a second, and how long 99, 95 and 50 of 100 took at most.
 * @param {any} pulse
 */
function series(pulse) {
  if (!pulse) return { calls: [[], [], []], times: [[], [], [], []] };
  const seconds = pulse.stepMs / 1000,
    end = Date.parse(pulse.end) / 1000,
    n = pulse.calls.length;
  const rate = (/** @type {number} */ v) => v / seconds;
  const ms = (/** @type {number} */ us) => (us ? us / 1000 : null);
  const at = pulse.calls.map((/** @type {number} */ _, /** @type {number} */ i) => end - (n - i) * seconds);
  return {
    calls: [at, pulse.failed.map(rate), pulse.calls.map(rate)],
    times: [at, pulse.p99_us.map(ms), pulse.p95_us.map(ms), pulse.p50_us.map(ms)],
  };
}

const rates = [
  { label: 'failed', colour: '--bad', bars: true },
  { label: 'calls', colour: '--busy' },
];
const shares = [
  { label: '99 of 100 within', colour: '--bad' },
  { label: '95 of 100', colour: '--warn' },
  { label: 'half of them', colour: '--good' },
];

/** The plots. @param {{pulse: any}} props */
function Plots({ pulse }) {
  // The hub's numbers change by the step; drawing them again in between would show the same.
  const { calls, times } = useMemo(() => series(pulse), [pulse?.end]);
  return html`<div class="plots"><${Plot} label="Calls per second" testid="plot-calls" data=${calls} lines=${rates} />
    <${Plot} label="Time of calls, ms" testid="plot-took" data=${times} lines=${shares} /></div>`;
}

/** A list whose end is told. @param {any[]} all */
const some = (all) => ({ shown: all.slice(0, most), more: Math.max(0, all.length - most) });

export function Home() {
  const servers = useApi('/api/v1/servers', 3000),
    runs = useApi(halted, 3000),
    pulse = useApi('/api/v1/pulse', 2000);
  useEffect(
    () =>
      listen((e) => {
        if (e.type === 'upstream.state' || e.type === 'health') servers.again();
        else if (/^run\./.test(e.type)) runs.again();
        else if (e.type === 'error') pulse.again();
      }, false),
    [],
  );
  // Whoever waits for approvals counts as being there to be asked; a page in
  // the background is nobody.
  const approvals = useApi(useSeen() ? '/api/v1/approvals?wait=1s' : '/api/v1/approvals', 1500);
  /** @type {any[]} */ const all = servers.data?.servers || [];
  const bad = some(all.filter((s) => s.error || s.state === 'failed' || s.health?.length));
  const open = some(all.filter((s) => (s.breaker && s.breaker !== 'closed') || s.openTools));
  /** @type {any[]} */ const still = runs.data?.runs || [];
  const halts = runs.data?.total ?? 0;
  const asked = approvals.data?.approvals || [];
  /** @type {any[]} */ const ill = pulse.data?.health || [];
  const known = servers.data && runs.data;
  const calm = known && ![bad.shown, open.shown, still, asked, ill].some((l) => l.length) && !pulse.data?.refused;
  const more = bad.more + open.more + halts - still.length + Math.max(0, asked.length - most);
  // Somebody else was first: the question goes, and what became of it has to be said elsewhere.
  const [late, setLate] = useState(/** @type {any} */ (null));
  const decide = (/** @type {any} */ a) => async (/** @type {any} */ body) => {
    setLate(null);
    try {
      await api('/api/v1/approvals/' + encodeURIComponent(a.id), { method: 'POST', body });
    } catch (err) {
      if (/** @type {any} */ (err).status !== 404) throw err;
      setLate({ message: `${a.tool}: your decision came too late`, hint: /** @type {any} */ (err).message });
    } finally {
      approvals.again();
    }
  };
  return html`<${Page} title="Home"><${Trouble} error=${servers.error || runs.error || pulse.error || approvals.error} />
    <${Trouble} error=${late} />
    <div class="cards figures">
      <${Figure} to="servers" testid="up"
        n=${servers.data ? `${all.filter((s) => s.state === 'connected').length} of ${all.length}` : '…'}>servers connected<//>
      <${Figure} to="errors" testid="errors" n=${pulse.data?.errors ?? '…'}>
      ${pulse.data?.errors === 1 ? 'error' : 'errors'} this minute<//>
      <${Figure} to="plans" testid="halted" n=${runs.data ? halts : '…'}>${halts === 1 ? 'run' : 'runs'} halted<//>
      <${Figure} testid="asked" n=${approvals.data ? asked.length : '…'}>
      ${asked.length === 1 ? 'call waits' : 'calls wait'} for you<//></div>
    <h2>Needs attention</h2>${calm && all.length ? html`<${Empty}>Nothing.<//>` : null}
    ${calm && !all.length ? html`<${Empty}>Nothing, but there is no server yet: write one under <code>servers</code> in
    ${' '}<code>stoa.yaml</code>, and it is started by itself. <${Link} to="tools">The hub's own tools<//> work already.<//>` : null}
    ${asked.slice(0, most).map((/** @type {any} */ a) => html`<${Approval} key=${a.id} approval=${a} decide=${decide(a)} whose
    />`)}
    <ul class="attention" data-testid="attention">
      ${ill.map((x) => html`<li key=${'h' + x.code + x.text} data-testid=${'ill-' + x.code}>
      <${Badge} kind=${x.severity === 'error' ? 'bad' : 'warn'}>hub<//> ${x.text}. <span class="soft">${x.hint}</span></li>`)}
      ${pulse.data?.refused ? html`<li key="refused"><${Badge} kind="bad">config<//> <${Link} to="settings"
      data-testid="refused">A file of the config<//> was changed and is wrong: the hub goes on with what it had.</li>` : null}
      ${bad.shown.map((s) => html`<li key=${'s' + s.name}>
      <${State} is=${s.state} /> <${Link} to=${'servers/' + encodeURIComponent(s.name)} data-testid=${'bad-' + s.name}>${s.name}
      <//> ${s.error || s.health.map((/** @type {any} */ x) => x.text).join('; ')}</li>`)}
      ${open.shown.map((s) => html`<${Breaker} key=${'b' + s.name} of=${s} />`)}
      ${still.map((r) => html`<li key=${'r' + r.id}><${State} is=${r.status} /> <${Link} to=${'plans/' + encodeURIComponent(r.id)}
      data-testid=${'run-' + r.id}>${r.title || r.id}
      <//> after ${r.done} of ${r.steps} steps${r.session ? ` in ${r.session}` : ''}${r.reason ? ': ' + r.reason : ''} <span
      class="soft"><${Time} at=${r.ended || r.began} /></span></li>`)}
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
    return html`<li><${Badge} kind="bad">breaker ${of.breaker}
      <//> <${Link} to=${'servers/' + encodeURIComponent(of.name)} data-testid=${'breaker-' + of.name}>${of.name}
      <//> is left alone for a while, as it failed too often</li>`;
  }
  const names = of.openNames || [],
    more = of.openTools - names.length;
  const tool = (
    /** @type {string} */ name,
    /** @type {number} */ i,
  ) => html`${i ? ', ' : ''}<${Link} class="mono" to="tools" 
    query=${{ upstream: of.name, filter: name }}>${name}<//>`;
  return html`<li><${Badge} kind="bad">breaker open<//> ${names.map(tool)}${more > 0 ? ` and ${more} more` : ''} of
    ${' '}<${Link} to="tools" query=${{ upstream: of.name, sort: 'failed' }} data-testid=${'breaker-' + of.name}>${of.name}<//>
    ${' '}
    ${of.openTools === 1 ? 'is' : 'are'} left alone for a while, having failed too often</li>`;
}
