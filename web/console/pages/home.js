// Home: what needs somebody, and how the hub does.
import { html, useState, useEffect } from '../lib/html.js';
import { api } from '../lib/api.js';
import { listen } from '../lib/events.js';
import { Link } from '../lib/router.js';
import { Page, Trouble, Empty, Badge, State, Button, Time, useApi, useSeen } from '../lib/ui.js';
import { Tree } from '../lib/json.js';
import { Plot } from '../lib/plot.js';

const step = 5; // seconds of one point
const points = 120; // ten minutes
const sample = 500; // latencies that one point keeps

/** What calls did, by time: number of the point → calls, failures, latencies. @type {Map<number, {calls: number, failed: number, took: number[]}>} */
const past = new Map();
let counted = 0; // the record that was counted last
let following = false;

/** @param {any} e */
function count(e) {
  if (e.seq <= counted && counted - e.seq < 100_000) return;
  counted = e.seq;
  if (e.type !== 'call.done') return;
  const at = Math.floor(Date.parse(e.time) / 1000 / step);
  let p = past.get(at);
  if (!p) { past.set(at, p = { calls: 0, failed: 0, took: [] }); for (const old of past.keys()) if (old < at - points) past.delete(old); }
  p.calls++;
  if (e.kind) p.failed++;
  if (p.took.length < sample) p.took.push(e.took_us || 0);
}

/** Counts what the hub still knows, and then what comes, as long as the page is open. */
async function follow() {
  if (following) return;
  following = true;
  /** @type {any[]} */ let fresh = [];
  let ready = false;
  listen((e) => { if (ready) count(e); else fresh.push(e); });
  try {
    for (let after = 0, i = 0; i < 6; i++) {
      const page = await api(`/api/v1/events?after=${after}&limit=1000&wait=0s`);
      page.events.forEach(count);
      after = page.next;
      if (page.events.length < 1000) break;
    }
  } catch { following = false; }
  ready = true;
  fresh.forEach(count);
}

/** @param {number[]} sorted @param {number} q */
const quantile = (sorted, q) => (sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] / 1000 : null);

function series() {
  const now = Math.floor(Date.now() / 1000 / step);
  /** @type {any[][]} */ const out = [[], [], [], [], []];
  for (let at = now - points; at < now; at++) {
    const p = past.get(at), took = p ? [...p.took].sort((a, b) => a - b) : [];
    [at * step, (p?.calls || 0) / step, (p?.failed || 0) / step, quantile(took, 0.5), quantile(took, 0.99)].forEach((v, i) => out[i].push(v));
  }
  return out;
}

export function Home() {
  const servers = useApi('/api/v1/servers', 3000), runs = useApi('/api/v1/runs', 3000), errors = useApi('/api/v1/errors?limit=1', 5000);
  // Whoever waits for approvals counts as being there to be asked; a page in
  // the background is nobody.
  const approvals = useApi(useSeen() ? '/api/v1/approvals?wait=1s' : '/api/v1/approvals', 1500);
  const [data, setData] = useState(series);
  useEffect(() => { follow().then(() => setData(series())); const t = setInterval(() => setData(series()), 1000); return () => clearInterval(t); }, []);
  const bad = (servers.data?.servers || []).filter((/** @type {any} */ s) => s.error || ['failed', 'error'].includes(s.state) || s.health?.length);
  const open = (servers.data?.servers || []).filter((/** @type {any} */ s) => s.breaker && s.breaker !== 'closed');
  const halted = (runs.data?.runs || []).filter((/** @type {any} */ r) => ['paused', 'waiting', 'stopped', 'failed'].includes(r.status)).slice(0, 20);
  const asked = approvals.data?.approvals || [];
  const perMinute = (errors.data?.groups || []).reduce((/** @type {number} */ n, /** @type {any} */ g) => n + (g.perMinute?.at(-1) || 0), 0);
  const calm = servers.data && !bad.length && !open.length && !halted.length && !asked.length;
  return html`<${Page} title="Home"><${Trouble} error=${servers.error} />
    <div class="cards figures"><div class="card"><strong data-testid="up">${(servers.data?.servers || []).filter((/** @type {any} */ s) => s.state === 'connected').length} of ${servers.data?.servers?.length ?? '…'}</strong> servers connected</div>
      <div class="card"><strong>${(data[1].at(-1) || 0).toFixed(1)}</strong> calls/s</div><div class="card"><strong data-testid="errors">${perMinute}</strong> errors this minute</div><div class="card"><strong>${asked.length}</strong> wait for you</div></div>
    <h2>Needs attention</h2>${calm ? html`<${Empty}>Nothing.<//>` : null}
    ${asked.map((/** @type {any} */ a) => html`<${Approval} key=${a.id} of=${a} again=${approvals.again} />`)}
    <ul class="attention" data-testid="attention">${bad.map((/** @type {any} */ s) => html`<li key=${'s' + s.name}><${State} is=${s.state} /> <${Link} to=${'servers/' + encodeURIComponent(s.name)}>${s.name}<//> ${s.error || (s.health || []).map((/** @type {any} */ x) => x.text).join('; ')}</li>`)}
      ${open.map((/** @type {any} */ s) => html`<li key=${'b' + s.name}><${Badge} kind="bad">breaker ${s.breaker}<//> <${Link} to=${'servers/' + encodeURIComponent(s.name)}>${s.name}<//> is left alone for a while, as it failed too often</li>`)}
      ${halted.map((/** @type {any} */ r) => html`<li key=${'r' + r.id}><${State} is=${r.status} /> <${Link} to=${'plans/' + encodeURIComponent(r.id)}>${r.title || r.id}<//> ${r.reason || ''}</li>`)}</ul>
    <div class="plots"><${Plot} label="Calls per second" data=${[data[0], data[1], data[2]]} lines=${[{ label: 'calls', colour: '--busy' }, { label: 'failed', colour: '--bad' }]} />
      <${Plot} label="Time of calls, ms" data=${[data[0], data[3], data[4]]} lines=${[{ label: 'half', colour: '--good' }, { label: '99 of 100', colour: '--warn' }]} /></div><//>`;
}

/** A call that waits for a person. @param {{of: any, again: () => void}} props */
function Approval({ of, again }) {
  const decide = (/** @type {string} */ decision) => async () => { try { await api('/api/v1/approvals/' + encodeURIComponent(of.id), { method: 'POST', body: { decision, remember: 'once' } }); } finally { again(); } };
  return html`<section class="card approval" aria-label=${'Approval of ' + of.tool} data-testid="approval"><div class="bar"><${Badge} kind="warn">asks<//> <strong class="mono">${of.tool}</strong> <span class="soft">for ${of.principal}${of.session ? ` in ${of.session}` : ''}, until <${Time} at=${of.expires} /></span></div>
    <p>${of.reason}</p><div class="json"><${Tree} value=${of.sent ?? of.args} /></div><div class="bar"><${Button} data-testid="approve" onClick=${decide('approve')}>Approve<//><${Button} danger data-testid="deny" onClick=${decide('deny')}>Deny<//></div></section>`;
}
