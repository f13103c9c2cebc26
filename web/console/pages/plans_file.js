// Runs from files: what was exported, here or by `stoa plan export`, can be
// looked at on any hub. Nothing of it is sent anywhere.
import { html, signal } from '../lib/html.js';
import { Link } from '../lib/router.js';
import { Page, State, Trouble, Empty } from '../lib/ui.js';
import { part, indent } from '../lib/jsontext.js';
import { linesOf } from './plans_time.js';
import { runOf } from './plans_model.js';
import { Body } from './plans_run.js';

/** What was brought last, as long as the page lives. @type {import('@preact/signals').Signal<{name: string, run: any, journal: any[]}|null>} */
export const brought = signal(/** @type {any} */ (null));

const most = 64 << 20; // characters of a file

/** Takes in a file: a plan, a run or a journal. Returns the text of the plan in it. @param {string} name @param {string} text */
export function bring(name, text) {
  if (text.length > most) throw new Error(`${name} is too large to be looked at here.`);
  brought.value = null;
  const first = text.trimStart().split('\n', 1)[0];
  let line;
  try {
    line = JSON.parse(first);
  } catch {
    /* no line by itself: it is one JSON */
  }
  if (line?.type === 'created' && line.created?.plan) {
    let journal;
    try {
      journal = linesOf(text);
    } catch (e) {
      throw new Error(`${name} is no whole journal: ${/** @type {Error} */ (e).message}`);
    }
    brought.value = { name, run: runOf(journal), journal };
    return indent(part(first, '/created/plan') || '{}');
  }
  let whole;
  try {
    whole = JSON.parse(text);
  } catch {
    return text;
  } // what is wrong with it is said where it is edited
  if (whole?.run?.plan?.steps && Array.isArray(whole.run.steps)) {
    brought.value = { name, run: whole.run, journal: Array.isArray(whole.journal) ? whole.journal : [] };
    return indent(part(text, '/run/plan') || '{}');
  }
  if (whole?.plan?.steps && !whole.steps) return indent(part(text, '/plan') || '{}');
  return text.trim().includes('\n') ? text : indent(text);
}

/** @param {{query: Record<string, string>}} props */
export function File({ query }) {
  const it = brought.value;
  const again = html`<${Link} to="plans/new">Run its plan, or choose another file<//>`;
  if (!it)
    return html`<${Page} title="A run from a file"><${Empty}>Files are not kept: choose it again. ${again}<//><//>`;
  const view = query.view || 'graph';
  return html`<${Page} title=${it.run.title || it.run.id || it.name} actions=${html`<span data-testid="status">
    <${State} is=${it.run.status} /></span> ${again}`}>
    <p class="notice" data-testid="from-file">From ${it.name}, as it was when it was exported. Nothing here reaches a hub.</p>
    <p class="soft">${it.run.id} · session ${it.run.session} · ${it.run.done} of ${it.run.steps.length} steps</p>
    ${it.run.failure ? html`<${Trouble} error=${it.run.failure} />` : null}
    <${Body} run=${it.run} plan=${it.run.plan} journal=${it.journal} view=${view} step=${query.step} /><//>`;
}
