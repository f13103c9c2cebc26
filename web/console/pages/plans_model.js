// What the views of plans work out by themselves: what waits for what, what a
// journal says of time and states, and what cannot be done to a run now.

/** The names that references in a value begin with. @param {any} v @param {Set<string>} into */
function names(v, into) {
  if (typeof v === 'string') {
    const m = /^@([^@:.[\s]+)/.exec(v);
    if (m) into.add(m[1]);
  } else if (v && typeof v === 'object') Object.values(v).forEach((x) => names(x, into));
  return into;
}

/** What each step waits for, by its id. @param {any} plan @returns {Map<string, string[]>} */
export function links(plan) {
  const own = new Map();
  for (const s of plan.steps) for (const o of s.outputs || []) own.set(o, s.id);
  for (const s of plan.steps) own.set(s.id, s.id);
  return new Map(
    plan.steps.map((/** @type {any} */ s) => {
      const used = names([s.args, s.when, s.forEach?.in, s.fallback], new Set());
      used.delete(s.forEach?.as);
      const needs = new Set(
        [...used].map((n) => own.get(n)).concat((s.after || []).map((/** @type {string} */ id) => own.get(id))),
      );
      needs.delete(undefined);
      needs.delete(s.id);
      return [s.id, [...needs]];
    }),
  );
}

/** The schema of what a plan is given, as a form needs it. @param {any} plan */
export function inputSchema(plan) {
  const properties = /** @type {Record<string, any>} */ ({}),
    required = [];
  for (const one of plan?.inputs || []) {
    // References in a schema are to the schema itself, and it is not the root here: such an input is written by hand.
    const own =
      one.schema && typeof one.schema === 'object' && !JSON.stringify(one.schema).includes('"$ref"') ? one.schema : {};
    properties[one.name] = {
      ...own,
      ...(one.description ? { description: one.description } : {}),
      ...('default' in one ? { default: one.default } : {}),
    };
    if (!one.optional && !('default' in one)) required.push(one.name);
  }
  return { type: 'object', properties, required, additionalProperties: false };
}

/**
 * One call of a step. end is NaN while it is under way; retry is when it is to be tried again.
 * @typedef {{step: string, item: number, attempt: number, kind: string, begin: number, end: number, outcome: string, failure?: any, args?: any, retry: number}} Call
 */

const ends = new Set(['done', 'failed', 'unknown']);

/** The calls that a journal tells of, in the order in which they began. @param {any[]} journal @returns {Call[]} */
export function callsOf(journal) {
  /** @type {Call[]} */ const out = [];
  const open = /** @type {Map<string, Call>} */ (new Map());
  for (const e of journal) {
    const key = JSON.stringify([e.step, e.item || 0, e.kind || '']),
      at = Date.parse(e.time);
    if (e.type === 'started') {
      const cut = open.get(key);
      if (cut) {
        cut.end = at;
        cut.outcome = 'cut off';
      }
      const call = {
        step: e.step,
        item: e.item || 0,
        attempt: e.attempt || 1,
        kind: e.kind || '',
        begin: at,
        end: NaN,
        outcome: 'running',
        args: e.args?.value,
        retry: NaN,
      };
      open.set(key, call);
      out.push(call);
    } else if (ends.has(e.type) && open.has(key)) {
      const call = /** @type {Call} */ (open.get(key));
      open.delete(key);
      Object.assign(call, { end: at, outcome: e.type, failure: e.failure, retry: e.retry ? Date.parse(e.retry) : NaN });
    }
  }
  return out;
}

/** When a run was paused. @param {any[]} journal @param {number} now @returns {{begin: number, end: number}[]} */
export function pausesOf(journal, now) {
  const out = [];
  let since = NaN;
  for (const e of journal) {
    const at = Date.parse(e.time);
    if (e.type === 'paused' || (e.type === 'created' && e.created?.paused)) since = at;
    else if (!Number.isNaN(since) && ['continued', 'stopping', 'ended'].includes(e.type)) {
      out.push({ begin: since, end: at });
      since = NaN;
    }
  }
  if (!Number.isNaN(since)) out.push({ begin: since, end: now });
  return out;
}

/** The parts of the pauses in which no call was under way. @param {{begin: number, end: number}[]} pauses @param {Call[]} calls @param {number} now */
export function restsOf(pauses, calls, now) {
  const out = [];
  for (const p of pauses) {
    let at = p.begin;
    const within = calls
      .map((c) => ({ begin: c.begin, end: Number.isNaN(c.end) ? now : c.end }))
      .filter((c) => c.end > p.begin && c.begin < p.end);
    for (const c of within.sort((a, b) => a.begin - b.begin)) {
      if (c.begin > at) out.push({ begin: at, end: c.begin });
      at = Math.max(at, c.end);
    }
    if (p.end > at) out.push({ begin: at, end: p.end });
  }
  return out;
}

/** A run as far as its journal alone tells of it: for a file that somebody brings. @param {any[]} journal */
export function runOf(journal) {
  const first = journal.find((e) => e.type === 'created')?.created;
  if (!first?.plan?.steps) throw new Error('It is no journal: its first line does not tell of a run.');
  const steps = new Map(
    first.plan.steps.map((/** @type {any} */ s) => [
      s.id,
      {
        id: s.id,
        tool: s.tool || s.action || '',
        state: s.id in (first.pinned || {}) ? 'done' : 'pending',
        attempts: 0,
        tookMs: 0,
      },
    ]),
  );
  const calls = callsOf(journal);
  const run = /** @type {any} */ ({
    id: first.run,
    title: first.plan.title,
    session: first.session,
    from: first.from,
    plan: first.plan,
    status: 'running',
    breakpoints: first.breaks,
  });
  for (const e of journal) {
    const s = steps.get(e.step);
    if (e.type === 'ended') {
      run.status = e.status;
      run.failure = e.failure;
    } else if (e.type === 'paused') run.status = 'paused';
    else if (e.type === 'continued') run.status = 'running';
    if (!s || e.kind === 'undo') continue;
    if (['opened', 'started', 'again'].includes(e.type)) s.state = 'running';
    else if (e.type === 'skipped') {
      s.state = 'skipped';
      s.reason = e.reason;
    } else if (e.type === 'pinned' || e.type === 'done') {
      s.state = 'done';
      s.result = e.result?.value;
      s.error = undefined;
    } else if (e.type === 'failed' || e.type === 'unknown') {
      s.state = e.retry ? 'running' : e.type;
      s.error = e.failure;
    }
  }
  for (const c of calls) {
    const s = steps.get(c.step);
    if (s) {
      s.attempts++;
      if (c.end > c.begin) s.tookMs += c.end - c.begin;
    }
  }
  run.steps = [...steps.values()];
  run.done = run.steps.filter((/** @type {any} */ s) => over.has(s.state)).length;
  run.events = journal.length;
  return run;
}

const over = new Set(['done', 'failed', 'skipped']);

/** Whether nothing more can happen to a run. @param {any} run */
export const isOver = (run) => ['done', 'failed', 'stopped'].includes(run.status);

/**
 * Why something cannot be done to a run now, or to a step of it; '' if it can.
 * @param {string} action @param {any} run @param {any} [step] @returns {string}
 */
export function whyNot(action, run, step) {
  if (action === 'fork' || action === 'set') return '';
  if (isOver(run)) return `the run is ${run.status}: fork it to go on from a step`;
  if (run.status === 'undoing') return 'the run is being stopped';
  const halted = run.status === 'paused';
  switch (action) {
    case 'pause':
      return halted ? 'it is paused already' : '';
    case 'step':
    case 'continue':
      if (halted) return '';
      return run.status === 'waiting' ? 'it waits for a person to allow a call' : 'it is going on: pause it first';
    case 'run_to':
      if (step.state !== 'pending') return `${step.id} is ${step.state}`;
      return halted ? '' : 'it is going on: pause it first';
    case 'skip':
      if (step.state === 'running' && !step.nextRetry) return `${step.id} is at work`;
      return step.state === 'done' || step.state === 'skipped' ? `${step.id} is ${step.state}` : '';
    case 'retry':
      if (['failed', 'skipped', 'unknown'].includes(step.state) || step.nextRetry) return '';
      return step.state === 'running'
        ? `${step.id} is at work`
        : `${step.id} is ${step.state}: only what failed, was skipped or is unsure can be tried again`;
  }
  return '';
}

/** A condition in words. @param {any} c @returns {string} */
function inWords(c) {
  if (!c) return '';
  if (c.all) return '(' + c.all.map(inWords).join(' and ') + ')';
  if (c.any) return '(' + c.any.map(inWords).join(' or ') + ')';
  if (c.not) return 'not ' + inWords(c.not);
  return `${c.value} is ${c.is || 'present'}${c.to === undefined ? '' : ' ' + JSON.stringify(c.to)}`;
}

/** A breakpoint in words. @param {any} b */
export const breakInWords = (b) => `${b.after ? 'after' : 'before'} ${b.step}${b.if ? ', if ' + inWords(b.if) : ''}`;
