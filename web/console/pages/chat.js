// Chat: conversations with a model that uses the hub's tools, what it does for
// an answer, and what a person has to decide.
import { html, useState, useEffect, useRef, useMemo, signal } from '../lib/html.js';
import { go, narrow, Link } from '../lib/router.js';
import { ask } from '../lib/api.js';
import { Page, Trouble, Empty, Badge, Button, useApi, bytes, Time } from '../lib/ui.js';
import { Markdown } from '../lib/markdown.js';
import { Talk } from './chat_talk.js';
import { Approval } from '../lib/approval.js';
import { Card, kindOf } from './chat_card.js';
import { Questions } from './tools_questions.js';
import { Trace, Raw } from './chat_trace.js';

/** The conversation that is open; it stays when its name becomes known. @type {import('@preact/signals').Signal<Talk|null>} */
const open = signal(null);

/** @param {string} session */
function useTalk(session) {
  useEffect(() => {
    const old = open.value;
    if (old && session && old.session === session) return;
    old?.leave();
    const talk = new Talk(session, () => {});
    open.value = talk;
  }, [session]);
  useEffect(
    () => () => {
      open.value?.leave();
      open.value = null;
    },
    [],
  );
  const talk = open.value;
  // The name goes into the address when there is something to come back to.
  const begun = talk && talk.items.value.length > 0;
  useEffect(() => {
    if (begun && !session && talk.session) go('chat/' + encodeURIComponent(talk.session), {}, true);
  }, [begun]);
  return talk;
}

/** @param {{rest: string[], query: Record<string, string>}} props */
export function Chat({ rest, query }) {
  const session = rest[0] || '';
  const talk = useTalk(session);
  const listed = useApi('/api/chat', 5000);
  const running = talk?.turn.value;
  const count = talk?.items.value.length;
  useEffect(() => {
    if (!running) listed.again();
  }, [running, count === 1]);
  const view = ['trace', 'raw'].includes(query.view) ? query.view : 'chat';
  const views = html`<div class="bar" role="tablist" aria-label="View">${['chat', 'trace', 'raw'].map(
    (v) => html`<button type="button" role="tab" data-testid=${'view-' + v} aria-selected=${view === v}
    onClick=${() => narrow({ view: v === 'chat' ? undefined : v })}>${v[0].toUpperCase() + v.slice(1)}</button>`,
  )}</div>`;
  return html`<${Page} title="Chat" actions=${html`${talk ? html`<${Meter} context=${talk.context.value} />` : null}${views}`}>
    <div class="chat"><${List} ...${listed} session=${talk?.session || session} />
    <section class="talk" aria-label="Conversation">${talk ? html`<${Conversation} key=${talk} talk=${talk} view=${view}
      agents=${listed.data?.agents || []} chosen=${query.agent || ''} />` : null}</section></div><//>`;
}

/** @param {any} props */
function List({ data, error, session }) {
  return html`<aside class="talks" aria-label="Conversations"><div class="bar">
    <${Link} to="chat" data-testid="new-chat">New conversation<//></div><${Trouble} error=${error} />
    <ul>${(data?.conversations || []).map(
      (
        /** @type {any} */ c,
      ) => html`<li key=${c.sessionId}><${Link} to=${'chat/' + encodeURIComponent(c.sessionId)} data-testid="talk"
        aria-current=${c.sessionId === session ? 'page' : undefined}>
      <span class="title">${c.title || c.sessionId}</span><span class="soft">
      ${c.turn ? html`<${Badge} kind="busy">running<//> ` : null}<${Time} at=${c.updated} /></span><//></li>`,
    )}</ul>
    ${data?.more ? html`<p class="soft">There are older ones, which are not listed.</p>` : null}</aside>`;
}

/** How full the model's memory is, by what is in it. @param {{context: any}} props */
function Meter({ context }) {
  if (!context) return null;
  const { used, limit, system, tools, history } = context;
  const whole = limit || used || 1;
  const text = `${used.toLocaleString()}${limit ? ' of ' + limit.toLocaleString() : ''} tokens`;
  let x = 0;
  const bars = [
    ['system', system],
    ['tools', tools],
    ['history', history],
  ].map(([name, n]) => {
    const width = 120 * Math.min(1, n / whole),
      at = x;
    x += width;
    return html`<rect class=${'part-' + name} x=${at} y="0" width=${width} height="8"><title>${name}: ${n} tokens</title></rect>`;
  });
  return html`<details class="meter" data-testid="meter"><summary title=${text}>
    <svg width="120" height="8" role="img" aria-label=${'Context: ' + text}>
    <rect class="part-free" x="0" y="0" width="120" height="8" />${bars}</svg> <span>${text}</span></summary>
    <dl><dt>Instructions</dt><dd>${system.toLocaleString()}</dd><dt>Tools</dt><dd>${tools.toLocaleString()}</dd>
    <dt>What was said</dt><dd>${history.toLocaleString()}</dd></dl></details>`;
}

/** @param {{talk: Talk, view: string, agents: any[], chosen: string}} props */
function Conversation({ talk, view, agents, chosen }) {
  const state = talk.state.value;
  return html`${state === 'lost' ? html`<p class="notice" role="status"
    data-testid="lost">The connection is lost and is made again by itself. No message gets lost.</p>` : null}
    ${view === 'trace' ? html`<${Trace} talk=${talk} />` : view === 'raw' ? html`<${Raw} talk=${talk} />` : html`<${Thread}
    talk=${talk} />`}
    <div class="approvals" aria-live="polite">${talk.approvals.value.map((a) => html`<${Approval} key=${a.id} approval=${a}
    decide=${(/** @type {any} */ p) => talk.decide({ id: a.id, ...p })} />`)}</div>
    ${talk.questions.value.map((q) => html`<${Question} key=${q.id} one=${q} talk=${talk} />`)}
    <${Trouble} error=${talk.trouble.value} />
    <${Composer} talk=${talk} agents=${agents} chosen=${chosen} />`;
}

/** What a server asks in the midst of a call. @param {{one: any, talk: Talk}} props */
function Question({ one, talk }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const params = { message: one.message, requestedSchema: one.requestedSchema, mode: one.url ? 'url' : 'form', url: one.url };
  const asked = {
    requests: /** @type {[string, any][]} */ ([[one.tool || one.upstream || one.id, { params }]]),
    answer: (/** @type {Record<string, any>} */ all) => talk.reply(one.id, Object.values(all)[0]).catch(setError),
  };
  return html`<${Questions} asked=${asked} /><${Trouble} error=${error} />`;
}

/** @param {{talk: Talk}} props */
function Thread({ talk }) {
  const items = talk.items.value;
  const waiting = talk.unsent.value;
  // It goes along with what is said, until somebody scrolls up to read.
  const stick = useRef(true);
  const toEnd = () => {
    if (stick.current) scrollTo(0, document.documentElement.scrollHeight);
  };
  useEffect(() => {
    let last = scrollY,
      tall = 0,
      frame = 0; // until which the window has another size, and the same words another height
    const look = () => {
      const now = document.documentElement.scrollHeight;
      if (innerHeight + scrollY >= now - 40) stick.current = true;
      // A window that changes and a page that got shorter move it too: then nobody has scrolled.
      else if (scrollY < last && now >= tall && !frame) stick.current = false;
      [last, tall] = [scrollY, now];
    };
    const resized = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => {
        toEnd();
        [last, tall, frame] = [scrollY, document.documentElement.scrollHeight, 0];
      });
    };
    addEventListener('scroll', look, { passive: true });
    addEventListener('resize', resized);
    return () => {
      removeEventListener('scroll', look);
      removeEventListener('resize', resized);
      cancelAnimationFrame(frame);
    };
  }, []);
  useEffect(() => {
    const frame = requestAnimationFrame(toEnd);
    return () => cancelAnimationFrame(frame);
  }, [items, waiting, talk.approvals.value]);
  const hint = waiting.length || items.some((i) => i.kind !== 'note')
    ? null
    : html`<${Empty}>Say something: the model can use every tool of the hub. Without a key for a model the built-in one answers; it knows “list tools” and “call NAME argument=value”.<//>`;
  return html`<div class="thread" data-testid="thread">${items.map((i) => html`<${Item} key=${i.kind + i.id} item=${i} />`)}
    ${waiting.map((u) => html`<${Waiting} key=${u.key} one=${u} talk=${talk} />`)}</div>
    ${hint}`;
}

/** A message that the hub has not confirmed. @param {{one: import('./chat_unsent.js').Unsent, talk: Talk}} props */
function Waiting({ one, talk }) {
  const away = talk.state.value !== 'open';
  const waits = one.put
    ? 'not confirmed; the hub is asked again when it is back'
    : 'not sent yet; goes out when the hub is back';
  const words = away ? waits : 'sending…';
  return html`<article class="said user unsent" data-testid="unsent">
    <div class="soft" role="status">You · ${away ? html`<${Badge} kind="warn">waits<//> ` : null}${words}
    ${one.put ? null : html` <button type="button" class="small" data-testid="take-back"
    onClick=${() => talk.takeBack(one.key)}>Take it back</button>`}</div>
    <p class="plain">${one.payload.text}</p></article>`;
}

/** @param {{item: any}} props */
function Item({ item }) {
  const body = useMemo(() => (item.text ? html`<${Markdown} text=${item.text} />` : null), [item.text]);
  switch (item.kind) {
    case 'user':
      return html`<article class="said user" data-testid="user">
        <div class="soft">You${item.agent ? ` to ${item.agent}` : ''} · <${Time} at=${item.at} />
        ${item.queued ? html` · <${Badge}>waits<//>` : null}${item.state ? html` · <${Badge}>${item.state}<//>` : null}</div>
      <p class="plain">${item.text}</p>${item.file ? html`<p class="soft">with the file ${item.file}</p>` : null}</article>`;
    case 'assistant':
      return html`<article class="said assistant" data-testid="assistant" aria-busy=${!!item.open}>
        ${item.reasoning ? html`<details class="reasoning"><summary>Thoughts</summary><p class="plain">${item.reasoning}</p>
        </details>` : null}${body}</article>`;
    case 'call':
      return html`<${Card} item=${item} />`;
    case 'notice':
      return html`<p class="notice" role="status">${item.text}</p>`;
    case 'note':
      return html`<p class="aside"><${Badge} kind=${kindOf(item.state)}>${item.state}<//> ${item.text}</p>`;
    default:
      return null;
  }
}

/** @param {{talk: Talk, agents: any[], chosen: string}} props */
function Composer({ talk, agents, chosen }) {
  const [file, setFile] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const field = useRef(/** @type {any} */ (null));
  const picker = useRef(/** @type {any} */ (null));
  const sent = useRef(false);
  const back = talk.returned.value;
  useEffect(() => {
    // A message that was not taken comes back, before what was written since.
    if (back) field.current.value = [back, field.current.value].filter(Boolean).join('\n');
    talk.returned.value = '';
  }, [back]);
  const send = (/** @type {any} */ e) => {
    e?.preventDefault();
    const text = field.current.value.trim();
    if ((!text && !file) || busy) return;
    talk.say({ text, ...(chosen ? { agent: chosen } : {}), ...(file ? { fileId: file.id } : {}) });
    field.current.value = '';
    setFile(null);
  };
  const upload = async (/** @type {any} */ e) => {
    const [picked] = e.target.files;
    if (!picked) return;
    setBusy(true);
    setError(null);
    try {
      setFile(
        await (
          await ask('/api/files?name=' + encodeURIComponent(picked.name), { method: 'POST', body: picked })
        ).json(),
      );
    } catch (err) {
      setError(err);
    } finally {
      setBusy(false);
      picker.current.value = '';
    }
  };
  return html`<form class="composer" onSubmit=${send}>
    <label class="grow"><span class="hide">Message</span>
    <textarea ref=${field} rows="2" data-testid="message" placeholder="Message (Enter sends, Shift+Enter begins a line)" autofocus
      onKeyDown=${(/** @type {KeyboardEvent} */ e) => {
        sent.current = e.key === 'Enter' && !e.shiftKey && !e.isComposing;
        if (sent.current) send(e);
      }}
      onBeforeInput=${(/** @type {InputEvent} */ e) => {
        if (sent.current && e.inputType === 'insertLineBreak') e.preventDefault();
      }}></textarea></label>
    <div class="bar"><button class="primary" data-testid="send" disabled=${busy}>Send</button>
      ${talk.turn.value ? html`<${Button} danger data-testid="abort"
      onClick=${() => talk.abort(talk.turn.value)}>Stop<//>` : null}
      <label>Agent <select data-testid="agent" value=${chosen}
      onChange=${(/** @type {any} */ e) => narrow({ agent: e.target.value || undefined })}>
      <option value="">the chat itself</option>
        ${agents.map((a) => html`<option value=${a.name} title=${a.description || ''} selected=${a.name === chosen}>${a.name}
        </option>`)}</select></label>
      <label class="file">File <input ref=${picker} type="file" data-testid="file" onChange=${upload} /></label>
      ${file ? html`<span data-testid="attached"><${Badge} kind="busy">${file.name} · ${bytes(file.size)}
      <//> <button type="button" class="small" aria-label=${'Remove ' + file.name} onClick=${() => setFile(null)}>✕</button>
      </span>` : null}</div>
    <${Trouble} error=${error} /></form>`;
}
