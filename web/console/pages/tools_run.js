// The panel of one tool: what it is, its arguments as a form or as JSON, the
// call, and what came of it.
import { html, useState, useEffect, useMemo, useRef } from '../lib/html.js';
import { api, ask, refused, Failure } from '../lib/api.js';
import { credential, signedIn } from '../lib/signin.js';
import { Trouble, useApi, took, Badge, Scroll, many } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { Form } from '../lib/form.js';
import { check, blank } from '../lib/schema.js';
import { Calls, Commands, remember, path } from './tools_calls.js';
import { Shown, good } from './tools_result.js';
import { Risk, Policy } from './tools_risk.js';
import { MayCall } from './tools_policy.js';
import { Definition, Mark } from './tools_pin.js';
import { Questions, answers, asked } from './tools_questions.js';

/** @param {{name: string, query: Record<string, string>}} props */
export function Run({ name, query }) {
  const { data: tool, error, again } = useApi('/api/v1/tools/' + encodeURIComponent(name));
  if (!tool) return error ? html`<${Trouble} error=${error} />` : html`<p class="loading">Loading…</p>`;
  return html`<${Trouble} error=${error} /><h2 class="mono">${tool.name}</h2><p><${Risk} is=${tool.risk} />
    <${Policy} policy=${tool.policy} /><${Mark} pin=${tool.pin} /> <span class="soft">
    ${tool.upstream} · ${many(tool.calls, 'call')}${tool.calls ? `, ${tool.failed} failed, about ${took(tool.mean_us)}` : ''}</span></p>
    ${tool.pin?.open ? html`<${Definition} is=${{ ...tool.pin, name: tool.name }} done=${again} />` : null}
    ${tool.description ? html`<${Scroll} class="description" label="Description">${tool.description}<//>` : null}
    ${tool.policy.action !== 'allow' ? html`<p class="soft">${tool.policy.reason} (${tool.policy.rule})</p>` : null}
    ${tool.notes?.length ? html`<p><${Badge} kind="warn">odd<//> ${tool.notes.join('; ')}</p>` : null}
    <${Panel} tool=${tool} query=${query} called=${again} /><details><summary>Definition</summary><${Json} value=${tool} />
    </details>`;
}

/** What the arguments are: a value that the form edits, or a text that is edited by hand. */
function useArguments(/** @type {any} */ schema, /** @type {string|undefined} */ given) {
  const start = () => {
    if (given) {
      try {
        return { value: JSON.parse(given), text: given, byHand: false };
      } catch {
        return { value: {}, text: given, byHand: true };
      }
    }
    return { value: blank(schema, schema) ?? {}, text: '', byHand: false };
  };
  const [state, set] = useState(start);
  /** @type {any} */ let broken = null,
    value = state.value;
  if (state.byHand) {
    try {
      value = state.text.trim() === '' ? {} : JSON.parse(state.text);
    } catch (e) {
      broken = e;
    }
  }
  const text = state.byHand ? state.text : JSON.stringify(state.value, null, 2);
  return {
    value,
    text,
    broken,
    byHand: state.byHand,
    edit: (/** @type {any} */ v) => set({ value: v, text: '', byHand: false }),
    write: (/** @type {string} */ t) => set({ value: state.value, text: t, byHand: true }),
    load: (/** @type {string} */ t) => {
      try {
        set({ value: JSON.parse(t), text: t, byHand: false });
      } catch {
        set({ value: {}, text: t, byHand: true });
      }
    },
    toForm: () => {
      if (!broken) set({ value, text: '', byHand: false });
    },
    toText: () => set({ value: state.value, text: JSON.stringify(state.value, null, 2), byHand: true }),
  };
}

/** @param {{tool: any, query: Record<string, string>, called: () => void}} props */
function Panel({ tool, query, called }) {
  const args = useArguments(tool.inputSchema, query.args);
  const [session, setSession] = useState(query.session || '');
  const [saveAs, setSaveAs] = useState('');
  const [result, setResult] = useState(/** @type {any} */ (null));
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  const [running, setRunning] = useState(/** @type {AbortController|null} */ (null));
  const [questions, setQuestions] = useState(/** @type {any} */ (null));
  const values = useValues(session);
  const refers = tool.references && session !== '';
  const local = useMemo(
    () => (args.broken ? [] : check(tool.inputSchema, args.value, { root: tool.inputSchema, references: refers })),
    [tool, args.text, refers],
  );
  const problems = useVerdict(tool.name, local, args, refers);
  /** @type {import('./tools_calls.js').Call} */
  const call = {
    tool: tool.name,
    args: args.byHand ? args.text.trim() || '{}' : JSON.stringify(args.value),
    session: session.trim(),
    saveAs: saveAs.trim(),
    at: 0,
  };
  const form = useRef(/** @type {HTMLFormElement|null} */ (null));
  const run = async (/** @type {Event} */ e) => {
    e.preventDefault();
    if (running || args.broken) return;
    const abort = new AbortController();
    setRunning(abort);
    setFailure(null);
    try {
      const came = await converse(call, abort.signal, setQuestions);
      setResult(came);
      remember({ ...call, at: Date.now(), ok: good(came), us: Math.round(came.ms * 1000) });
      values.again();
      called();
    } catch (err) {
      setFailure(abort.signal.aborted ? { message: 'Stopped. The tool was told to end.' } : err);
    } finally {
      setQuestions(null);
      setRunning(null);
    }
  };
  const load = (/** @type {any} */ c) => {
    args.load(c.args);
    setSession(c.session || '');
    setSaveAs(c.saveAs || '');
  };
  return html`<form ref=${form} class="run" onSubmit=${run} onKeyDown=${(/** @type {KeyboardEvent} */ e) => {
    if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) {
      e.preventDefault();
      form.current?.requestSubmit();
    }
  }}>
    <div class="bar"><label>Session <input data-testid="session" list="sessions" placeholder="none" autocomplete="off"
    value=${session} onInput=${(/** @type {any} */ e) => setSession(e.target.value)} /></label><datalist id="sessions">
    ${values.sessions.map((s) => html`<option value=${s}></option>`)}</datalist>
      ${tool.saveAs ? html`<label>Keep as <input data-testid="save-as" placeholder=${session ? 'name' : 'needs a session'}
      disabled=${!session} autocomplete="off" value=${saveAs} onInput=${(/** @type {any} */ e) => setSaveAs(e.target.value)} />
      </label>` : null}</div>
    <div class="bar" role="tablist" aria-label="Arguments as">
    <button type="button" role="tab" data-testid="form" aria-selected=${!args.byHand} disabled=${!!args.broken}
    onClick=${args.toForm}>Form</button><button type="button" role="tab" data-testid="json" aria-selected=${args.byHand}
    onClick=${() => {
      if (!args.byHand) args.toText();
    }}>JSON</button></div>
    ${args.byHand ? html`<${ByHand} args=${args} problems=${problems} />` : html`<${Form} schema=${tool.inputSchema}
    value=${args.value} onChange=${args.edit} problems=${problems}
    references=${tool.references && session ? values.list : undefined} />`}
    <div class="bar"><button class="primary" data-testid="run" disabled=${!!args.broken}
    aria-disabled=${!!running} aria-busy=${!!running}>Run</button>
    ${running ? html`<button type="button" data-testid="stop" onClick=${() => running.abort()}>Stop</button>` : null}
      <span class=${problems.length ? 'problem' : 'soft'} data-testid="verdict" role="status">
      ${args.broken ? 'no JSON yet' : problems.length ? `${problems.length} ${problems.length === 1 ? 'thing is' : 'things are'} not as the tool wants it` : 'Ctrl+Enter runs it'}
      </span></div></form>
    ${questions ? html`<${Questions} key=${questions.round} asked=${questions} />` : null}
    <${Trouble} error=${failure} />${result ? html`<${Shown} result=${result} />` : null}
    <${MayCall} tool=${tool.name} args=${call.args} /><${Commands} call=${call} /><${Calls} call=${call} onLoad=${load} />`;
}

/**
 * What is wrong with the arguments: what the page sees at once, and what only the hub knows, a moment after the last key.
 * @param {string} tool @param {import('../lib/schema.js').Problem[]} local @param {any} args @param {boolean} refers
 */
function useVerdict(tool, local, args, refers) {
  const [said, setSaid] = useState(
    /** @type {{text: string, problems: import('../lib/schema.js').Problem[]}} */ ({ text: '', problems: [] }),
  );
  // What references stand for is known when the tool is called.
  const ask =
    !args.broken &&
    !local.some((p) => p.unparsed) &&
    !(refers && /"@[\p{L}_]/u.test(args.text)) &&
    args.text.length < 200_000;
  useEffect(() => {
    if (!ask) return;
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const { faults } = await api('/api/v1/check/' + encodeURIComponent(tool), {
          method: 'POST',
          body: args.text.trim() || '{}',
          signal: abort.signal,
        });
        setSaid({
          text: args.text,
          problems: faults.map((/** @type {any} */ f) => ({
            path: f.pointer.replaceAll('~1', '/').replaceAll('~0', '~'),
            text: f.message,
          })),
        });
      } catch {
        /* the call will say it */
      }
    }, 250);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [tool, args.text, ask]);
  if (!ask || said.text !== args.text) return local;
  // Of one place the page's words are enough; and of a union it knows which form is meant.
  return [
    ...local,
    ...said.problems.filter(
      (p) =>
        !local.some((l) => l.path === p.path || l.path.startsWith(p.path + '/') || p.path.startsWith(l.path + '/')),
    ),
  ];
}

/** Arguments as JSON. What is pasted here can be edited in the form. @param {{args: any, problems: any[]}} props */
function ByHand({ args, problems }) {
  return html`<textarea class="mono whole" data-testid="text" aria-label="Arguments as JSON" spellcheck=${false}
    rows=${Math.min(24, Math.max(6, args.text.split('\n').length))} value=${args.text} aria-invalid=${!!args.broken}
    onInput=${(/** @type {any} */ e) => args.write(e.target.value)}></textarea>
    ${args.broken ? html`<p class="problem" data-testid="broken">${args.broken.message}</p>` : null}
    ${problems.length ? html`<ul class="problems">${problems.slice(0, 20).map((p) => html`<li class="problem"><code>
    ${p.path || '/'}</code> ${p.text}</li>`)}</ul>` : null}`;
}

/**
 * Makes the call, and puts what the tool asks meanwhile to whoever looks at the page.
 * @param {import('./tools_calls.js').Call} call @param {AbortSignal} signal @param {(asked: any) => void} show
 */
async function converse(call, signal, show) {
  let more = '';
  for (let round = 1; ; round++) {
    const came = await perform(call, signal, more);
    const wanted = asked(came);
    if (!wanted) return came;
    more = await new Promise((yes, no) => {
      signal.addEventListener('abort', () => no(signal.reason), { once: true });
      show({ ...wanted, round, answer: (/** @type {any} */ all) => yes(answers(all, wanted.state)) });
    });
    show(null);
  }
}

/**
 * Makes the call once, and measures it.
 * @param {import('./tools_calls.js').Call} call @param {AbortSignal} signal @param {string} more members of the body, from the second round on
 */
async function perform(call, signal, more) {
  const began = performance.now();
  const secret = signedIn.value?.secret || '';
  let response, text;
  try {
    const to = path(call);
    response = await fetch(to + (to.includes('?') ? '&' : '?') + 'asks=true', {
      method: 'POST',
      credentials: 'omit',
      headers: { ...credential(), 'Content-Type': 'application/json' },
      body: `{"arguments":${call.args}${more}}`,
      signal,
    });
    text = await response.text();
  } catch (e) {
    if (signal.aborted) throw e;
    throw new Failure(0, {
      message: 'the hub was lost before it answered',
      data: { hint: 'The tool may have run, or may not: look before you call it again.' },
    });
  }
  if (response.status === 401) refused(secret);
  return {
    tool: call.tool,
    args: call.args,
    status: response.status,
    text: text.trimEnd(),
    ms: performance.now() - began,
    at: Date.now(),
  };
}

/** The sessions there are, and the values of one of them. @param {string} session */
function useValues(session) {
  const [sessions, setSessions] = useState(/** @type {string[]} */ ([]));
  const [list, setList] = useState(/** @type {any[]} */ ([]));
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    const get = async (/** @type {string} */ at) => (await ask(at, { signal: abort.signal })).json();
    get('/api/v1/sessions?limit=200').then(
      (d) =>
        setSessions(
          [...new Set(/** @type {string[]} */ (d.sessions.map((/** @type {any} */ s) => s.name)))].slice(0, 200),
        ),
      () => {},
    );
    setList([]);
    if (!session) return () => abort.abort();
    const timer = setTimeout(
      () =>
        get('/api/v1/sessions/' + encodeURIComponent(session) + '?limit=500').then(
          (d) => setList(d.values || []),
          () => {},
        ),
      200,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [session, turn]);
  return { sessions, list, again: () => setTurn((n) => n + 1) };
}
