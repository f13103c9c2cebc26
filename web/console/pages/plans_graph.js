// A plan as a drawing: what comes after what, and how far a run of it is. The
// drawing is laid out once for a plan; states only change how it looks.
import { html, useMemo, useRef, useState, useEffect } from '../lib/html.js';
import { layout, Graph } from 'dagre';
import { links, breakInWords } from './plans_model.js';
import { Scroll } from '../lib/ui.js';

const width = 190,
  height = 50;

/** More steps than this are no drawing that anybody could read, and take a browser seconds. */
export const mostDrawn = 600;

/** @param {any} plan */
function place(plan) {
  // The better ranks of a large plan would take a browser seconds.
  const g = new Graph()
    .setGraph({
      rankdir: 'TB',
      nodesep: 30,
      ranksep: 40,
      marginx: 8,
      marginy: 8,
      ranker: plan.steps.length > 150 ? 'longest-path' : 'network-simplex',
    })
    .setDefaultEdgeLabel(() => ({}));
  const needs = links(plan);
  for (const s of plan.steps) g.setNode(s.id, { width, height });
  for (const s of plan.steps) for (const n of needs.get(s.id) || []) g.setEdge(n, s.id);
  layout(g);
  const size = g.graph();
  const nodes = g
    .nodes()
    .map((id, n) => ({
      id,
      n,
      x: g.node(id).x || 0,
      y: g.node(id).y || 0,
      needs: needs.get(id) || [],
      step: plan.steps.find((/** @type {any} */ s) => s.id === id),
    }));
  const edges = g.edges().map((e) => ({ key: e.v + '→' + e.w, points: g.edge(e).points || [] }));
  return { width: size.width || width, height: size.height || height, nodes, edges };
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + '…' : text);

/** The node that a key leads to from another; undefined if there is none that way. @param {any[]} nodes @param {any} from @param {string} key */
function towards(nodes, from, key) {
  const row = nodes.filter((n) => Math.abs(n.y - from.y) < height / 2).sort((a, b) => a.x - b.x);
  switch (key) {
    case 'ArrowLeft':
      return row[row.indexOf(from) - 1];
    case 'ArrowRight':
      return row[row.indexOf(from) + 1];
    case 'Home':
      return nodes[0];
    case 'End':
      return nodes[nodes.length - 1];
  }
  const down = key === 'ArrowDown';
  // Along an edge if there is one, else to the nearest of the next row.
  const linked = nodes.filter((n) => (down ? n.needs.includes(from.id) : from.needs.includes(n.id)));
  const among = linked.length
    ? linked
    : nodes.filter((n) => (down ? n.y > from.y + height / 2 : n.y < from.y - height / 2));
  const far = (/** @type {any} */ n) => Math.abs(n.y - from.y) * 1000 + Math.abs(n.x - from.x);
  return among.reduce((best, n) => (!best || far(n) < far(best) ? n : best), undefined);
}

const moves = new Set(['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'Home', 'End']);

/**
 * @param {{plan: any, steps?: any[], breakpoints?: any[], at?: string, selected?: string, onStep?: (id: string) => void,
 *   onBreak?: (id: string) => void}} props steps are those of a run, if there is one
 */
export function Drawing(props) {
  if (props.plan.steps.length > mostDrawn) {
    return html`<p class="notice" role="status"
      data-testid="too-large">The plan has ${props.plan.steps.length} steps; up to ${mostDrawn} are drawn. The table has all of them.</p>`;
  }
  return html`<${Drawn} ...${props} />`;
}

/** @param {Parameters<typeof Drawing>[0]} props */
function Drawn({ plan, steps = [], breakpoints = [], at, selected, onStep, onBreak }) {
  const drawn = useMemo(() => {
    const start = performance.now();
    try {
      return place(plan);
    } finally {
      performance.measure('plan layout', { start });
    }
  }, [plan]);
  const [here, setHere] = useState('');
  const [fit, setFit] = useState(false);
  const box = useRef(/** @type {SVGSVGElement|null} */ (null));
  const focus = drawn.nodes.some((n) => n.id === here)
    ? here
    : drawn.nodes.some((n) => n.id === selected)
      ? selected
      : drawn.nodes[0]?.id;
  const to = (/** @type {string} */ id) => {
    setHere(id);
    const node = [...(box.current?.querySelectorAll('.node') || [])].find((n) => n.getAttribute('data-step') === id);
    /** @type {any} */ (node)?.focus();
  };
  const key = (/** @type {KeyboardEvent} */ e) => {
    const from = drawn.nodes.find((n) => n.id === /** @type {Element} */ (e.target).getAttribute?.('data-step'));
    if (!from || e.ctrlKey || e.metaKey || e.altKey) return;
    if (moves.has(e.key)) {
      const next = towards(drawn.nodes, from, e.key);
      if (next) to(next.id);
    } else if (e.key === 'Enter' || e.key === ' ') onStep?.(from.id);
    else if (e.key === 'b' && onBreak) onBreak(from.id);
    else return;
    e.preventDefault();
  };
  const state = new Map(steps.map((s) => [s.id, s]));
  const breaks = new Map(breakpoints.map((b) => [b.step, breakpoints.filter((o) => o.step === b.step)]));
  const edges = useMemo(
    () =>
      drawn.edges.map(
        (e) =>
          html`<polyline key=${e.key} class="edge" points=${e.points.map((/** @type {any} */ p) => p.x + ',' + p.y).join(' ')}
            />`,
      ),
    [drawn],
  );
  const Box = onStep ? 'div' : Scroll; // steps that can be gone to by keys bring themselves into view
  const large = drawn.width > 700 || drawn.height > 600;
  return html`<div class="graph"><div class="bar"><span class="soft" id="graph-keys">
    ${onStep ? 'Arrow keys move, Enter looks into a step' : `${plan.steps.length} steps`}${onBreak ? ', b sets or clears a breakpoint' : ''}.</span>
      ${large ? html`<button type="button" class="small" data-testid="fit" aria-pressed=${fit}
      onClick=${() => setFit(!fit)}>Whole</button>` : null}</div>
    <${Box} class="scroll drawing"><svg ref=${box} class=${'dag' + (fit ? ' fit' : '')} data-testid="dag"
    width=${fit ? undefined : drawn.width} height=${fit ? undefined : drawn.height}
      viewBox=${`0 0 ${drawn.width} ${drawn.height}`} role="group"
      aria-label=${`The plan as a graph of ${plan.steps.length} steps`} aria-describedby="graph-keys" onKeyDown=${key}>
    <g aria-hidden="true">${edges}</g>
    ${drawn.nodes.map(
      (
        n,
      ) => html`<${Node} key=${n.id} node=${n} of=${drawn.nodes.length} state=${state.get(n.id)?.state || ''}
        note=${noteOf(state.get(n.id))} breaks=${(breaks.get(n.id) || []).map(breakInWords).join('; ')}
      at=${at === n.id} selected=${selected === n.id} tab=${focus === n.id} onStep=${onStep} onBreak=${onBreak} onFocus=${setHere}
      />`,
    )}</svg><//></div>`;
}

/** What else is to be known of a step in a run. @param {any} s */
function noteOf(s) {
  if (!s) return '';
  if (s.nextRetry) return `try ${s.attempts}, again soon`;
  if (s.items) return `${s.done || 0} of ${s.items}`;
  if (s.pinned) return 'result is set';
  return s.attempts > 1 ? `${s.attempts} tries` : '';
}

/** One step. It is drawn anew only when something of it has changed. @param {any} props */
function Node({ node, of, state, note, breaks, at, selected, tab, onStep, onBreak, onFocus }) {
  const act = useRef(/** @type {any} */ ({}));
  useEffect(() => {
    act.current = { onStep, onBreak, onFocus };
  });
  return useMemo(() => {
    const { id, step } = node,
      tool = step.tool || step.action || '';
    const label = [
      `${id}${step.title ? ', ' + step.title : ''}: ${tool}`,
      state || 'not run',
      note,
      at ? 'the run is paused here' : '',
      breaks && 'pauses ' + breaks,
      node.needs.length
        ? 'comes after ' +
          node.needs.slice(0, 8).join(', ') +
          (node.needs.length > 8 ? ` and ${node.needs.length - 8} more` : '')
        : 'comes first',
      `step ${node.n + 1} of ${of}`,
    ];
    return html`<g class=${['node', state, selected && 'selected', at && 'at'].filter(Boolean).join(' ')} data-testid="node"
      data-step=${id} data-state=${state} transform=${`translate(${node.x - width / 2} ${node.y - height / 2})`}
      role=${onStep ? 'button' : 'img'} tabindex=${!onStep ? undefined : tab ? 0 : -1}
      aria-label=${label.filter(Boolean).join('; ')} aria-pressed=${onStep ? selected : undefined}
      aria-keyshortcuts=${onBreak ? 'Enter b' : onStep ? 'Enter' : undefined}
      onFocus=${() => act.current.onFocus(id)}>
      <g class="box" onClick=${
        onStep
          ? () => {
              act.current.onFocus(id);
              act.current.onStep(id);
            }
          : undefined
      }><title>${step.title || id}</title><rect width=${width} height=${height} rx="8" />
        <text x="28" y="20" class="name">${cut(id, 22)}</text><text x="28" y="38" class="tool">
        ${cut([state, note, tool].filter(Boolean).join(' · '), 27)}</text></g>
      ${
        onBreak || breaks
          ? html`<g class=${'break' + (breaks ? ' on' : '')} data-testid="break" data-step=${id} data-on=${!!breaks}
            aria-hidden="true" onClick=${() => act.current.onBreak?.(id)}>
        <title>${breaks ? 'Pauses ' + breaks : 'Pause before ' + id}</title><rect class="reach" width="26" height=${height} />
        <circle cx="14" cy="25" r="7" />${/(^|; )after /.test(breaks) ? html`<path d="M14 18a7 7 0 0 1 0 14z" class="half"
        />` : null}${breaks.includes(', if ') ? html`<text x="14" y="29" class="mark">?</text>` : null}</g>`
          : null
      }</g>`;
  }, [node, of, state, note, breaks, at, selected, tab, !!onStep, !!onBreak]);
}
