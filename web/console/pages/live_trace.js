// One trace as a tree: each part below what it is part of, with when it began
// and how long it took.
import { html } from '../lib/html.js';
import { Link } from '../lib/router.js';
import { Badge, Button, Copy, Empty, Trouble, useApi, took } from '../lib/ui.js';

const most = 500; // parts that are drawn
const deepest = 8; // steps to the right that there is room for

/** @param {{id: string, query: Record<string, string>}} props */
export function Trace({ id, query }) {
  const { data, error, again } = useApi(id ? '/api/v1/traces/' + encodeURIComponent(id) : null);
  const parts = /** @type {any[]} */ (data?.parts || []);
  return html`<section class="card" aria-label=${'Trace ' + id} data-testid="trace-tree">
    <div class="bar"><h2>Trace <span class="mono">${id}</span></h2><${Copy} text=${id} label="Copy the id" />
      <${Button} data-testid="trace-again" onClick=${again}>Look again<//>
      <${Link} to="live" query=${{ trace: id }} data-testid="trace-only">Its records<//> <${Link} to="live"
        query=${query}>Close<//></div>
    ${error?.status === 404 ? html`<p class="soft" data-testid="no-trace">${error.message}. ${error.hint}
    </p>` : html`<${Trouble} error=${error} />`}
    ${data ? html`<${Tree} parts=${parts} from=${data.from} />` : null}</section>`;
}

/** @param {{parts: any[], from: string}} props */
function Tree({ parts, from }) {
  if (!parts.length) return html`<${Empty}>No call of it is over yet.<//>`;
  const times = parts.map((p) => Date.parse(p.began));
  const first = Math.min(...times);
  const whole = Math.max(1, ...parts.map((p, i) => times[i] - first + p.took_us / 1000));
  return html`<p class="soft">${parts.length} ${parts.length === 1 ? 'part' : 'parts'}, from ${from} · ${took(whole * 1000)}</p>
    <ol class="traceparts">${parts.slice(0, most).map((p, i) => html`<${Part} key=${i} part=${p} after=${times[i] - first}
    whole=${whole} />`)}</ol>
    ${parts.length > most ? html`<p class="soft">${parts.length - most} further parts are not drawn.</p>` : null}`;
}

/** @param {{part: any, after: number, whole: number}} props */
function Part({ part, after, whole }) {
  const at = Math.min(99, (100 * after) / whole);
  const long = Math.min(100 - at, Math.max(0.6, part.took_us / 10 / whole));
  const upstream = part.attributes?.['stoa.upstream'];
  const label = `begins after ${took(after * 1000)} and takes ${took(part.took_us)}`;
  return html`<li data-depth=${part.depth}><div class=${'part deep' + Math.min(part.depth, deepest)}>
      <span class="mono">${part.name}</span> ${upstream ? html`<span class="soft">${upstream}</span>` : null}
      ${part.kind ? html`<${Badge} kind="bad">${part.kind}<//>` : null} <span class="soft">${took(part.took_us)}</span></div>
    <svg class="span" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${label}>
      <rect class="rail" x="0" y="2.5" width="100" height="1" /><rect class=${'fill ' + (part.kind ? 'bad' : 'good')} x=${at}
      y="0" width=${long} height="6" /></svg></li>`;
}
