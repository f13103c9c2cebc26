// What a person does to a run: controls that say why they cannot be used, and
// the breakpoints of a step.
import { html, useState, useRef, useEffect } from '../lib/html.js';
import { Trouble } from '../lib/ui.js';
import { whyNot, breakInWords } from './plans_model.js';

/** A text that must be JSON; throws what a person can act on. @param {string} text */
export function mustBeJSON(text) {
  try {
    JSON.parse(text);
  } catch (e) {
    throw new Error(`It is no JSON: ${/** @type {Error} */ (e).message}. Texts stand in quotes.`);
  }
  return text.trim();
}

let ids = 0;

/**
 * A button. If why is not empty it cannot be used, and says so when it is pointed at, reached or pressed.
 * @param {any} props
 */
export function Act({ label, why = '', onClick, danger, primary, testid, ...rest }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const [asked, setAsked] = useState(false);
  const id = (useRef('').current ||= 'why' + ++ids);
  const fresh = useRef(false); // nothing has changed since it was refused
  useEffect(() => {
    setAsked(false);
    // The first change after a refusal is mostly what it was refused for.
    if (!fresh.current) setError(null);
    fresh.current = false;
  }, [why]);
  const click = async () => {
    if (why) {
      setAsked(true);
      return;
    }
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      await onClick();
    } catch (e) {
      fresh.current = true;
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  return html`<button type="button" class=${[danger && 'danger', primary && 'primary'].filter(Boolean).join(' ')}
    data-testid=${testid} aria-disabled=${!!why || busy} aria-busy=${busy} title=${why || undefined}
    aria-describedby=${why ? id : undefined}
      onClick=${click} ...${rest}>${label}</button>
    ${why ? html`<span id=${id} class=${asked ? 'soft' : 'hide'} data-testid=${testid && testid + '-why'}
    role=${asked ? 'status' : undefined}>${label}: ${why}</span>` : null}${error ? html`<${Trouble} error=${error} />` : null}`;
}

/** What moves the whole run. @param {{run: any, act: (a: string, b?: any) => Promise<any>}} props */
export function Controls({ run, act }) {
  const one = (/** @type {string} */ action, /** @type {string} */ label, /** @type {any} */ more = {}) =>
    html`<${Act} label=${label} testid=${action} why=${whyNot(action, run)} onClick=${() => act(action)} ...${more} />`;
  return html`<div class="bar controls" role="group" aria-label="The run">
    ${one('step', 'Step')}${one('continue', 'Continue', { primary: true })}${one('pause', 'Pause')}${one('stop', 'Stop', { danger: true })}</div>`;
}

/** What moves a run by one of its steps. @param {{run: any, step: any, act: (a: string, b?: any) => Promise<any>}} props */
export function StepControls({ run, step, act }) {
  const one = (/** @type {string} */ action, /** @type {string} */ label, /** @type {string} */ testid) =>
    html`<${Act} label=${label} testid=${testid} why=${whyNot(action, run, step)} onClick=${() => act(action, { step: step.id })}
      />`;
  return html`<div class="bar controls" role="group" aria-label=${'The step ' + step.id}>
    ${one('run_to', 'Run to here', 'run-to')}${one('skip', 'Skip', 'skip')}${one('retry', 'Retry', 'retry')}${one('fork', 'Fork from here', 'fork')}</div>`;
}

const tests = [
  'present',
  'absent',
  'true',
  'false',
  'empty',
  'equal',
  'unequal',
  'less',
  'greater',
  'contains',
  'matches',
];
const compares = new Set(['equal', 'unequal', 'less', 'greater', 'contains', 'matches']);

/** The breakpoints of a step: before or after it, always or if a value is so. @param {{run: any, step: any, act: (a: string, b?: any) => Promise<any>}} props */
export function Breaks({ run, step, act }) {
  const all = run.breakpoints || [],
    own = all.filter((/** @type {any} */ b) => b.step === step.id);
  const [form, setForm] = useState({ after: false, value: '', is: 'equal', to: '' });
  const field = (/** @type {string} */ name) => (/** @type {any} */ e) => setForm({ ...form, [name]: e.target.value });
  const why = whyNot('break', run);
  const add = async () => {
    let wanted = `{"step":${JSON.stringify(step.id)}${form.after ? ',"after":true' : ''}`;
    const ref = form.value.trim();
    if (ref)
      wanted += `,"if":{"value":${JSON.stringify(ref.startsWith('@') ? ref : '@' + ref)},"is":"${form.is}"${compares.has(form.is) ? ',"to":' + mustBeJSON(form.to) : ''}}`;
    await act(
      'break',
      `{"breakpoints":[${[...all.map((/** @type {any} */ b) => JSON.stringify(b)), wanted + '}'].join(',')}]}`,
    );
    setForm({ ...form, value: '', to: '' });
  };
  return html`<h3>Breakpoints</h3>
    ${
      own.length
        ? html`<ul class="kept breaks" data-testid="breakpoints">${own.map(
            (/** @type {any} */ b) => html`<li><span>${breakInWords(b)}</span>
      <${Act} label="Clear" testid="break-clear" why=${why} aria-label=${'Clear the breakpoint ' + breakInWords(b)}
      onClick=${() => act('break', { breakpoints: all.filter((/** @type {any} */ o) => o !== b) })} /></li>`,
          )}</ul>`
        : html`<p class="soft">None at this step.</p>`
    }
    <div class="fields"><label>Pause <select data-testid="break-when" value=${form.after ? 'after' : 'before'}
    onChange=${(/** @type {any} */ e) => setForm({ ...form, after: e.target.value === 'after' })}>
    <option value="before">before it</option><option value="after">after it</option></select></label>
      <label>if the value <input data-testid="break-value" placeholder="@name.path, or always" autocomplete="off"
      spellcheck=${false} value=${form.value} onInput=${field('value')} /></label>
      ${form.value.trim() ? html`<label>is <select data-testid="break-is" value=${form.is} onChange=${field('is')}>
      ${tests.map((t) => html`<option value=${t}>${t}</option>`)}</select></label>` : null}
      ${form.value.trim() && compares.has(form.is) ? html`<label>to, as JSON <input data-testid="break-to" class="mono"
      autocomplete="off" spellcheck=${false} value=${form.to} onInput=${field('to')} /></label>` : null}</div>
    <div class="bar"><${Act} label="Add the breakpoint" testid="break-add" why=${why} onClick=${add} /></div>`;
}
