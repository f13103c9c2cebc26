// A plan as a drawing: what comes after what, and how far a run of it is.
import { html, useMemo } from '../lib/html.js';
import { layout, Graph } from 'dagre';

/** The names that references in a value begin with. @param {any} v @param {Set<string>} into */
function names(v, into) {
  if (typeof v === 'string') { const m = /^@([^.[\s]+)/.exec(v); if (m) into.add(m[1]); } else if (v && typeof v === 'object') Object.values(v).forEach((x) => names(x, into));
  return into;
}

/** The steps that a step waits for. @param {any} plan @param {any} step */
export function needs(plan, step) {
  const used = names([step.args, step.when, step.forEach?.in], new Set(step.after || []));
  return plan.steps.filter((/** @type {any} */ s) => s.id !== step.id && (used.has(s.id) || (s.outputs || []).some((/** @type {string} */ o) => used.has(o)))).map((/** @type {any} */ s) => s.id);
}

const width = 190, height = 50;

/** @param {any} plan */
function place(plan) {
  const g = new Graph().setGraph({ rankdir: 'TB', nodesep: 30, ranksep: 40, marginx: 8, marginy: 8 }).setDefaultEdgeLabel(() => ({}));
  for (const s of plan.steps) g.setNode(s.id, { width, height });
  for (const s of plan.steps) for (const n of needs(plan, s)) g.setEdge(n, s.id);
  layout(g);
  const size = g.graph();
  return { width: size.width || width, height: size.height || height, nodes: g.nodes().map((id) => ({ id, ...g.node(id) })), edges: g.edges().map((e) => ({ key: e.v + '→' + e.w, points: g.edge(e).points })) };
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + '…' : text);

/** @param {{plan: any, steps: any[], breaks: Set<string>, at?: string, selected?: string, onStep: (id: string) => void, onBreak?: (id: string) => void}} props */
export function Drawing({ plan, steps, breaks, at, selected, onStep, onBreak }) {
  const drawn = useMemo(() => place(plan), [JSON.stringify(plan.steps)]);
  const state = Object.fromEntries(steps.map((s) => [s.id, s.state]));
  const tool = Object.fromEntries(plan.steps.map((/** @type {any} */ s) => [s.id, s.tool || s.action || '']));
  /** @param {() => void} fn */
  const keys = (fn) => (/** @type {KeyboardEvent} */ e) => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); fn(); } };
  return html`<div class="scroll"><svg class="dag" data-testid="dag" width=${drawn.width} height=${drawn.height} viewBox=${`0 0 ${drawn.width} ${drawn.height}`} role="group" aria-label="The plan as a graph">
    ${drawn.edges.map((e) => html`<polyline key=${e.key} class="edge" points=${e.points.map((/** @type {any} */ p) => p.x + ',' + p.y).join(' ')} />`)}
    ${drawn.nodes.map((n) => html`<g key=${n.id} data-testid="node" data-step=${n.id} data-state=${state[n.id] || ''} class=${'node ' + (state[n.id] || '') + (selected === n.id ? ' selected' : '') + (at === n.id ? ' at' : '')} transform=${`translate(${n.x - width / 2} ${n.y - height / 2})`}>
      <g class="box" role="button" tabindex="0" aria-label=${`${n.id}: ${tool[n.id]}, ${state[n.id] || 'not run'}`} aria-pressed=${selected === n.id} onClick=${() => onStep(n.id)} onKeyDown=${keys(() => onStep(n.id))}>
        <rect width=${width} height=${height} rx="8" /><text x="28" y="20" class="name">${cut(n.id, 22)}</text><text x="28" y="38" class="tool">${cut(`${state[n.id] ? state[n.id] + ' · ' : ''}${tool[n.id]}`, 26)}</text></g>
      ${onBreak ? html`<circle class=${'break' + (breaks.has(n.id) ? ' on' : '')} data-testid="break" data-step=${n.id} cx="14" cy="25" r="7" role="checkbox" tabindex="0" aria-checked=${breaks.has(n.id)} aria-label=${'Pause before ' + n.id} onClick=${() => onBreak(n.id)} onKeyDown=${keys(() => onBreak(n.id))}><title>Pause before ${n.id}</title></circle>` : null}</g>`)}</svg></div>`;
}

/** When each step was at work, from the journal. @param {{journal: any[], steps: any[]}} props */
export function Timeline({ journal, steps }) {
  const times = journal.map((e) => Date.parse(e.time));
  const from = Math.min(...times), whole = Math.max(1, Math.max(...times) - from);
  return html`<div class="timeline" data-testid="timeline">${steps.map((s) => {
    const own = journal.filter((e) => e.step === s.id).map((e) => Date.parse(e.time) - from);
    const begin = Math.min(...own), end = Math.max(...own);
    return html`<div class="row" key=${s.id}><span class="mono">${s.id}</span><svg viewBox="0 0 100 8" preserveAspectRatio="none" class="span" role="img" aria-label=${own.length ? `${s.id}: from ${begin} ms to ${end} ms, ${s.state}` : `${s.id}: not begun`}><rect class="rail" x="0" y="3.5" width="100" height="1" />
      ${own.length ? html`<rect class=${'fill ' + s.state} x=${Math.min(99, 100 * begin / whole)} y="0" width=${Math.max(0.8, 100 * (end - begin) / whole)} height="8" />` : null}</svg><span class="soft nowrap">${own.length ? `${begin}–${end} ms` : '—'}</span></div>`;
  })}</div>`;
}
