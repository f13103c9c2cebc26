// A plan to be run: written, pasted, from a file, published, kept in a session
// or of an earlier run. What is wrong with it is shown where it stands.
import { html, useState, useEffect, useMemo, useRef } from '../lib/html.js';
import { go } from '../lib/router.js';
import { api, ask } from '../lib/api.js';
import { Page, Trouble, useApi } from '../lib/ui.js';
import { Form } from '../lib/form.js';
import { check, blank } from '../lib/schema.js';
import { indent, locate, lineOf, part } from '../lib/jsontext.js';
import { Drawing } from './plans_graph.js';
import { Act } from './plans_act.js';
import { inputSchema } from './plans_model.js';
import { brought, bring } from './plans_file.js';

/** A plan that a text may be, and what is wrong if it is none. @param {string} text @returns {{plan: any, broken: string, open: any}} */
function read(text) {
  const t = text.trim();
  if (!t) return { plan: null, broken: '', open: null };
  if (/^(@|run_)\S+$/.test(t)) return { plan: null, broken: '', open: t }; // the hub knows what it stands for
  try {
    const v = JSON.parse(t);
    const whole =
      v &&
      typeof v === 'object' &&
      Array.isArray(v.steps) &&
      v.steps.every((/** @type {any} */ s) => s && typeof s === 'object' && typeof s.id === 'string');
    return { plan: whole ? v : null, broken: '', open: v };
  } catch (e) {
    return { plan: null, broken: /** @type {Error} */ (e).message, open: null };
  }
}

/** Where the plan of this address is; null if none is named. @param {Record<string, string>} q @returns {[string, string]|null} */
function source(q) {
  if (q.published) return ['/api/v1/plans/' + encodeURIComponent(q.published), '/plan'];
  if (q.run) return ['/api/v1/runs/' + encodeURIComponent(q.run) + '?plan=true', '/run/plan'];
  if (q.saved && q.session)
    return [
      `/api/v1/sessions/${encodeURIComponent(q.session)}/values/${encodeURIComponent(q.saved)}` +
        (q.principal ? '?principal=' + encodeURIComponent(q.principal) : ''),
      '',
    ];
  return null;
}

/** The plan in what was kept: as plan_create answers, or as it is. @param {string} text */
const inner = (text) => (!locate(text, '/steps').found && part(text, '/plan')) || text;

/** @param {{query: Record<string, string>}} props */
export function Begin({ query }) {
  const [text, setText] = useState('');
  const [session, setSession] = useState(query.saved && !query.foreign ? query.session : '');
  const [error, setError] = useState(/** @type {any} */ (null));
  const from = source(query);
  useEffect(() => {
    if (!from) return;
    const abort = new AbortController();
    setError(null);
    (async () => {
      try {
        setText(indent(inner(part(await (await ask(from[0], { signal: abort.signal })).text(), from[1]) || '{}')));
      } catch (e) {
        if (!abort.signal.aborted) setError(e);
      }
    })();
    return () => abort.abort();
  }, [from?.[0]]);
  useEffect(() => {
    setSession(query.saved && !query.foreign ? query.session : '');
  }, [query.saved, query.session]);
  const parsed = useMemo(() => read(text), [text]);
  return html`<${Page} title="Run a plan"><${Trouble} error=${error} /><div class="begin">
    <${Sources} query=${query} onText=${setText} onError=${setError} />
    <${Edit} text=${text} setText=${setText} parsed=${parsed} session=${session} setSession=${setSession} /></div><//>`;
}

/** Where a plan can be from. @param {{query: Record<string, string>, onText: (t: string) => void, onError: (e: any) => void}} props */
function Sources({ query, onText, onError }) {
  const { data } = useApi('/api/v1/plans?saved=true');
  const file = async (/** @type {any} */ e) => {
    const one = e.target.files[0];
    if (!one) return;
    onError(null);
    try {
      const plan = bring(one.name, await one.text());
      go('plans/new', {}, true);
      onText(plan);
    } catch (err) {
      onError(err);
    }
  };
  const pick = (/** @type {string} */ v) => go('plans/new', v ? JSON.parse(v) : {});
  const saved = (/** @type {any} */ s) => ({
    saved: s.name,
    session: s.session,
    principal: s.principal,
    ...(s.own ? {} : { foreign: '1' }),
  });
  const now = query.published
    ? { published: query.published }
    : query.saved
      ? {
          saved: query.saved,
          session: query.session,
          principal: query.principal,
          ...(query.foreign ? { foreign: '1' } : {}),
        }
      : null;
  return html`<div class="fields">
    <label>From a file <input type="file" accept=".json,.ndjson,application/json,application/x-ndjson" data-testid="import"
    onChange=${file} /></label>
    <label>From those that are kept <select data-testid="kept" value=${now ? JSON.stringify(now) : ''}
    onChange=${(/** @type {any} */ e) => pick(e.target.value)}><option value="">none</option>
      ${data?.plans?.length ? html`<optgroup label="Published">
      ${data.plans.map((/** @type {any} */ p) => html`<option value=${JSON.stringify({ published: p.name })}>
      ${p.name}${p.title ? ' · ' + p.title : ''}</option>`)}</optgroup>` : null}
      ${data?.saved?.length ? html`<optgroup label="Kept in sessions">
      ${data.saved.map((/** @type {any} */ s) => html`<option
      value=${JSON.stringify(saved(s))}>@${s.name} of ${s.session}${s.title ? ' · ' + s.title : ''}</option>`)}
      </optgroup>` : null}</select></label>
    ${brought.value?.run ? html`<div class="bar">
    <${Act} label="Look at the run in the file" testid="look" onClick=${() => go('plans/file')} /></div>` : null}</div>`;
}

/** @param {{text: string, setText: (t: string) => void, parsed: ReturnType<typeof read>, session: string, setSession: (s: string) => void}} props */
function Edit({ text, setText, parsed, session, setSession }) {
  const [inputs, setInputs] = useState(/** @type {any} */ ({}));
  const [byHand, setByHand] = useState(/** @type {string|null} */ (null));
  const [options, setOptions] = useState(/** @type {Record<string, string>} */ ({}));
  const [problems, setProblems] = useState(/** @type {any[]} */ ([]));
  const [said, setSaid] = useState('');
  const area = useRef(/** @type {HTMLTextAreaElement|null} */ (null));
  const plan = parsed.plan;
  const schema = useMemo(() => inputSchema(plan), [JSON.stringify(plan?.inputs)]);
  useEffect(() => setInputs(blank(schema, schema) || {}), [schema]);
  useEffect(() => {
    setProblems([]);
    setSaid('');
  }, [text]);
  const wrong =
    plan && byHand === null ? check(schema, inputs, { root: schema, references: session.trim() !== '' }) : [];
  const given = byHand === null ? (plan ? JSON.stringify(inputs) : '') : byHand.trim();
  /** The request, with the plan as it is written. @param {Record<string, any>} more @param {boolean} [open] without inputs */
  const body = (more, open) => {
    const members = Object.entries({
      ...more,
      ...(session.trim() ? { session: session.trim() } : {}),
      options: chosen(options),
    }).map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`);
    const t = text.trim();
    return `{"plan":${typeof parsed.open === 'string' ? JSON.stringify(t) : t},${given && !open ? `"inputs":${given},` : ''}${members.join(',')}}`;
  };
  /** Does something, and shows what is wrong with the plan where it stands. @param {() => Promise<any>} fn */
  const tried = async (fn) => {
    setProblems([]);
    setSaid('');
    try {
      return await fn();
    } catch (e) {
      const list = /** @type {any} */ (e).data?.problems;
      if (!list?.length) throw e;
      setProblems(list);
      return null;
    }
  };
  const post = (/** @type {string} */ sent) => api('/api/v1/runs', { method: 'POST', body: sent });
  const start = (/** @type {boolean} */ paused) =>
    tried(async () => go('plans/' + encodeURIComponent((await post(body({ paused }))).run.id)));
  const verify = () =>
    tried(async () => {
      await post(body({ dryRun: true }, wrong.length > 0));
      setSaid(
        wrong.length
          ? 'The plan could be run with inputs that fit; nothing was called.'
          : 'It could be run; nothing was called.',
      );
    });
  const why = !text.trim() ? 'there is no plan yet' : parsed.broken ? 'it is no JSON' : '';
  const whyRun = why || (wrong.length ? 'some inputs are missing or wrong' : '');
  return html`<label>Plan: JSON, @name of a session, or the id of a run<textarea ref=${area} rows="16" spellcheck=${false}
    data-testid="plan-text" aria-invalid=${!!parsed.broken} value=${text}
    onInput=${(/** @type {any} */ e) => setText(e.target.value)}></textarea></label>
    ${parsed.broken ? html`<p class="problem" data-testid="broken">${parsed.broken}</p>` : null}
    <${Problems} list=${problems} text=${text} area=${area} />
    <${Given} schema=${schema} plan=${plan} value=${inputs} onChange=${setInputs} problems=${wrong} byHand=${byHand}
    setByHand=${setByHand} />
    <div class="fields"><label>Session (left empty, a new one) <input data-testid="plan-session" autocomplete="off"
    value=${session} onInput=${(/** @type {any} */ e) => setSession(e.target.value)} /></label></div>
    <${Options} value=${options} onChange=${setOptions} />
    <div class="bar"><${Act} label="Check" testid="check" why=${why} onClick=${verify} />
    <${Act} label="Debug" testid="debug" why=${whyRun} onClick=${() => start(true)} />
    <${Act} label="Run" testid="run" primary why=${whyRun} onClick=${() => start(false)} /></div>
    ${said ? html`<p data-testid="checked" role="status">${said}</p>` : null}
    <${Publish} text=${text} why=${why || (plan ? '' : 'it takes the plan itself, not a name of it')} tried=${tried} />
    ${plan?.steps.length ? html`<h2>As a graph</h2><${Drawing} plan=${plan} />` : null}`;
}

/** What is wrong with a plan. A place leads to where it stands in the text. @param {{list: any[], text: string, area: {current: HTMLTextAreaElement|null}}} props */
function Problems({ list, text, area }) {
  if (!list.length) return null;
  const show = (/** @type {{from: number, to: number}} */ at) => {
    const box = area.current;
    if (!box) return;
    box.focus();
    box.setSelectionRange(at.from, at.to);
    box.scrollTop = Math.max(0, (box.scrollHeight * (lineOf(text, at.from) - 3)) / text.split('\n').length);
  };
  return html`<div class="trouble" role="alert" data-testid="problems"><strong>
    ${list.length === 1 ? 'One thing is' : `${list.length} things are`} wrong. Nothing was called.</strong><ul>${list
    .slice(0, 100)
    .map((p) => {
      // What is given for an input has its name there; the plan's own inputs have numbers.
      const foreign = /^\/(inputs\/(?!\d+(\/|$))|breakpoints)/.test(p.pointer) || /^(@|run_)/.test(text.trim());
      const at = foreign ? null : locate(text, p.pointer);
      return html`<li>${at ? html`<button type="button" class="small mono" data-testid="problem" data-pointer=${p.pointer}
        title="Show it in the text" onClick=${() => show(at)}>${p.pointer || '/'} · line ${lineOf(text, at.from)}
        </button>` : html`<code data-testid="problem" data-pointer=${p.pointer}>${p.pointer}</code>`}
      ${p.step ? html` step ${p.step}: ` : ' '}${p.message}${p.hint ? html` <span class="hint">${p.hint}</span>` : null}</li>`;
    })}</ul>${list.length > 100 ? html`<span>… and ${list.length - 100} more.</span>` : null}</div>`;
}

/** What the run is given: by a form, or as JSON. @param {any} props */
function Given({ schema, plan, value, onChange, problems, byHand, setByHand }) {
  const fields = Object.keys(schema.properties).length;
  if (byHand === null && plan && !fields) return html`<p class="soft">The plan needs no inputs.</p>`;
  const hand = byHand !== null || !plan;
  return html`<fieldset class="field"><legend>Inputs</legend>
    ${
      plan
        ? html`<div class="bar" role="tablist" aria-label="Inputs as">
          <button type="button" role="tab" aria-selected=${!hand} data-testid="inputs-form" onClick=${() => {
            try {
              onChange(JSON.parse(byHand));
            } catch {
              /* what the form had counts */
            }
            setByHand(null);
          }}>Form</button>
      <button type="button" role="tab" aria-selected=${hand} data-testid="inputs-json" onClick=${() => {
        if (!hand) setByHand(JSON.stringify(value, null, 2));
      }}>JSON</button></div>`
        : null
    }
    ${
      hand
        ? html`<label>A JSON object, or nothing<textarea rows="3" class="whole" spellcheck=${false} data-testid="plan-inputs"
          value=${byHand || ''} onInput=${(/** @type {any} */ e) => setByHand(e.target.value)}></textarea></label>`
        : html`<${Form} schema=${schema} value=${value} onChange=${onChange} problems=${problems} />`
    }</fieldset>`;
}

/** The options that were set. @param {Record<string, string>} o */
function chosen(o) {
  const out = /** @type {Record<string, any>} */ ({});
  for (const [k, v] of Object.entries(o)) if (v !== '') out[k] = k === 'stopOnError' ? v === 'true' : Number(v);
  return out;
}

/** @param {{value: Record<string, string>, onChange: (v: any) => void}} props */
function Options({ value, onChange }) {
  const number = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ usual) =>
    html`<label>${label} <input type="number" min="0" data-testid=${'option-' + name} placeholder=${usual}
      value=${value[name] || ''} onInput=${(/** @type {any} */ e) => onChange({ ...value, [name]: e.target.value })} /></label>`;
  return html`<details><summary data-testid="options">Options</summary><div class="fields">
    ${number('retries', 'Tries after the first', '3')}${number('maxParallel', 'Calls at once', '4')}${number('timeout', 'Time in all, ms', '300000')}
    <label>If a step fails <select data-testid="option-stopOnError" value=${value.stopOnError || ''}
    onChange=${(/** @type {any} */ e) => onChange({ ...value, stopOnError: e.target.value })}><option value="">stop</option>
    <option value="false">go on with what does not need it</option></select></label></div></details>`;
}

/** Offers the plan as a tool. @param {{text: string, why: string, tried: (fn: () => Promise<any>) => Promise<any>}} props */
function Publish({ text, why, tried }) {
  const [name, setName] = useState('');
  const [tool, setTool] = useState('');
  useEffect(() => setTool(''), [text, name]);
  const publish = () =>
    tried(async () =>
      setTool(
        (await api('/api/v1/plans/' + encodeURIComponent(name.trim()), { method: 'PUT', body: text.trim() })).tool,
      ),
    );
  const bad = /^[a-z][a-z0-9_-]{0,39}$/.test(name.trim()) ? '' : 'name it with small letters, digits, - and _';
  return html`<details><summary data-testid="publishing">Offer it as a tool</summary>
    <p class="soft">Every client can call it; its inputs are the arguments. A plan of that name that you published is replaced.</p>
    <div class="bar"><label>Name <input data-testid="publish-name" autocomplete="off" value=${name}
    onInput=${(/** @type {any} */ e) => setName(e.target.value)} /></label>
    <${Act} label="Publish" testid="publish" why=${why || bad} onClick=${publish} /></div>
    ${tool ? html`<p role="status" data-testid="published">It is the tool <code>${tool}</code> now.</p>` : null}</details>`;
}
