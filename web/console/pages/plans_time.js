// When each call of a run was made, how long it took and what came of it. Where
// a run was paused and nothing was under way, the time is left out unless wanted.
import { html, useState, useEffect } from '../lib/html.js';
import { ask } from '../lib/api.js';
import { took, Empty } from '../lib/ui.js';
import { callsOf, pausesOf, restsOf, isOver } from './plans_model.js';

/** Reads lines of JSON. @param {string} text */
export const linesOf = (text) =>
  text
    .split('\n')
    .filter((l) => l.trim())
    .map((l) => JSON.parse(l));

/** The journal of a run, as far as it is; what comes later is added. @param {string} path @param {number} events @param {boolean} wanted @returns {any[]} */
export function useJournal(path, events, wanted) {
  const [journal, set] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    const known = journal.length ? journal[journal.length - 1].n : 0;
    if (!wanted || known >= events) return;
    const abort = new AbortController();
    (async () => {
      try {
        const text = await (await ask(`${path}/journal?after=${known}`, { signal: abort.signal })).text();
        set((old) => [...old, ...linesOf(text).filter((e) => !old.length || e.n > old[old.length - 1].n)]);
      } catch {
        /* the run itself tells what is wrong */
      }
    })();
    return () => abort.abort();
  }, [path, events, wanted, journal]);
  return journal;
}

/** @param {number} ms */
export const span = (ms) =>
  ms < 60_000
    ? took(Math.max(0, Math.round(ms)) * 1000)
    : ms < 3_600_000
      ? `${(ms / 60_000).toFixed(1)} min`
      : `${(ms / 3_600_000).toFixed(1)} h`;

/** The time that counts: with the rests taken out of it. @param {{begin: number, end: number}[]} rests @param {number} from */
function clock(rests, from) {
  return (/** @type {number} */ t) =>
    t - from - rests.reduce((sum, r) => sum + Math.max(0, Math.min(t, r.end) - r.begin), 0);
}

const kinds = /** @type {Record<string, string>} */ ({
  done: 'good',
  failed: 'bad',
  unknown: 'bad',
  'cut off': 'bad',
  running: 'busy',
});

/** @param {import('./plans_model.js').Call} c */
function told(c) {
  const what = c.kind === 'undo' ? 'undoing' : c.kind === 'fallback' ? 'fallback' : 'try';
  return `${what} ${c.attempt}${c.item ? ` of item ${c.item}` : ''}: ${c.outcome}`;
}

/** @param {{journal: any[], run: any, selected?: string, onStep?: (id: string) => void}} props */
export function Timeline({ journal, run, selected, onStep }) {
  const [whole, setWhole] = useState(false);
  const over = isOver(run);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (over) return;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [over]);
  if (!journal.length) return html`<${Empty}>Nothing has happened yet.<//>`;
  const times = journal.map((e) => Date.parse(e.time));
  const from = times[0],
    last = over ? times[times.length - 1] : Math.max(now, times[times.length - 1]);
  const calls = callsOf(journal),
    pauses = pausesOf(journal, last);
  const rests = whole ? [] : restsOf(pauses, calls, last);
  const at = clock(rests, from),
    full = Math.max(1, at(last));
  const x = (/** @type {number} */ t) => (100 * at(t)) / full;
  const by = new Map(run.steps.map((/** @type {any} */ s) => [s.id, /** @type {any[]} */ ([])]));
  for (const c of calls) by.get(c.step)?.push(c);
  const rested = pauses.reduce((sum, p) => sum + p.end - p.begin, 0);
  return html`<div class="timeline" data-testid="timeline"><div class="bar"><span class="soft">
    ${span(last - from)} in all${rested > 0 ? `, of which ${span(rested)} paused` : ''}</span>
      ${rested > 0 ? html`<label><input type="checkbox" data-testid="with-pauses" checked=${whole}
      onChange=${(/** @type {any} */ e) => setWhole(e.target.checked)} /> Show pauses at their length</label>` : null}
      <span class="legend" aria-hidden="true"><i class="good"></i> done <i class="bad"></i> failed <i class="busy">
      </i> at work <i class="wait"></i> waits to try again <i class="rest"></i> paused</span></div>
    <div class="row axis" aria-hidden="true"><span></span><svg class="ticks" viewBox="0 0 100 4" preserveAspectRatio="none">
    <path d="M0 0V4M25 2V4M50 2V4M75 2V4M100 0V4" /></svg><span></span></div>
    <div class="row axis soft" aria-hidden="true"><span></span><span class="labels">
    ${[0, 0.25, 0.5, 0.75, 1].map((f) => html`<span>${span(f * full)}</span>`)}</span><span></span></div>
    ${run.steps.map((/** @type {any} */ s) => html`<${Row} key=${s.id} step=${s} calls=${by.get(s.id)}
    rests=${whole ? pauses : rests} x=${x} last=${last} from=${from} selected=${selected === s.id} onStep=${onStep} />`)}</div>`;
}

/** @param {any} props */
function Row({ step, calls, rests, x, last, from, selected, onStep }) {
  const ended = (/** @type {any} */ c) => (Number.isNaN(c.end) ? last : c.end);
  const words = calls.map(
    (/** @type {any} */ c) => `${told(c)}, from ${span(c.begin - from)}, for ${span(ended(c) - c.begin)}`,
  );
  const name = html`${step.id}${calls.length > 1 ? html` <span class="soft">×${calls.length}</span>` : null}`;
  const sum = calls.reduce((/** @type {number} */ n, /** @type {any} */ c) => n + ended(c) - c.begin, 0);
  return html`<div class=${'row' + (selected ? ' selected' : '')} data-testid="time-row" data-step=${step.id}>
    ${onStep ? html`<button type="button" class="plain mono" aria-pressed=${selected} onClick=${() => onStep(step.id)}>${name}
    </button>` : html`<span class="mono">${name}</span>`}
    <svg viewBox="0 0 100 10" preserveAspectRatio="none" class="span" role="img"
    aria-label=${`${step.id}: ${words.join('; ') || (step.pinned ? 'its result was taken over' : step.state)}`}>
      <rect class="rail" x="0" y="4.5" width="100" height="1" />
      ${rests.map((/** @type {any} */ r) => html`<rect class="rest" x=${Math.max(0, x(r.begin) - 0.1)} y="0"
      width=${Math.max(0.2, x(r.end) - x(r.begin))} height="10" />`)}
      ${calls.map(
        (
          /** @type {any} */ c,
        ) => html`${Number.isNaN(c.retry) ? null : html`<rect class="wait" x=${x(c.end)} y="3.5"
          width=${Math.max(0, x(Math.min(c.retry, last)) - x(c.end))} height="3" />`}
        <rect class=${'bar-of ' + (kinds[c.outcome] || '')} data-testid="bar" data-attempt=${c.attempt} data-outcome=${c.outcome}
        data-ms=${ended(c) - c.begin} x=${Math.min(99.4, x(c.begin))} y="0" width=${Math.max(0.6, x(ended(c)) - x(c.begin))}
        height="10"><title>${told(c)}, ${span(ended(c) - c.begin)}</title></rect>`,
      )}</svg>
    <span class="soft nowrap num">
    ${calls.length ? span(sum) : step.pinned ? 'taken over' : step.state === 'skipped' ? 'skipped' : '—'}</span></div>`;
}
