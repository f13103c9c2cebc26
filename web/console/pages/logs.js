// Logs: the hub's log, by level and text, and as it is written.
import { html, useState, useEffect, useRef } from '../lib/html.js';
import { api } from '../lib/api.js';
import { narrow } from '../lib/router.js';
import { Page, Trouble, Empty, Search, Badge } from '../lib/ui.js';
import { save } from '../lib/more.js';
import { plain } from '../lib/text.js';

const kept = 2000;
const drawn = 500; // of those that are kept, the newest
const levels = ['trace', 'debug', 'info', 'warn', 'error'];
let numbered = 0;
const kinds = /** @type {Record<string, string>} */ ({ error: 'bad', warn: 'warn', info: 'busy' });

/** @param {{query: Record<string, string>}} props */
export function Logs({ query }) {
  const follow = query.follow !== 'no';
  const [state, set] = useState(/** @type {{logs: any[], next: number, error: any, read: boolean}} */ ({ logs: [], next: 0, error: null, read: false }));
  const want = new URLSearchParams(Object.entries({ level: query.level || '', search: query.search || '' }).filter(([, v]) => v));
  const end = useRef(/** @type {HTMLElement|null} */ (null));
  useEffect(() => {
    const abort = new AbortController();
    /** @type {any} */ let timer;
    let next = -1;
    const load = async () => {
      try {
        const q = new URLSearchParams(want);
        q.set('limit', next < 0 ? '300' : '1000');
        if (next >= 0) q.set('after', String(next));
        const page = await api('/api/v1/logs?' + q, { signal: abort.signal });
        const first = next < 0;
        next = page.next;
        for (const l of page.logs) l.n = ++numbered; // so that a row stays that of its record
        set((old) => ({ logs: first ? page.logs : page.logs.length ? old.logs.concat(page.logs).slice(-kept) : old.logs, next, error: null, read: true }));
      } catch (error) {
        if (abort.signal.aborted) return;
        set((old) => ({ ...old, error, read: true }));
      }
      if (follow && !abort.signal.aborted) timer = setTimeout(load, document.hidden ? 5000 : 1000);
    };
    load();
    return () => { abort.abort(); clearTimeout(timer); };
  }, [want.toString(), follow]);
  useEffect(() => { if (follow) end.current?.scrollIntoView({ block: 'nearest' }); }, [state.logs, follow]);
  const take = () => save(new Blob(state.logs.map(({ n: _, ...l }) => JSON.stringify(l) + '\n'), { type: 'application/x-ndjson' }), 'stoa-log.ndjson');
  return html`<${Page} title="Logs" actions=${html`<label>From <select data-testid="level" value=${query.level || ''} onChange=${(/** @type {any} */ e) => narrow({ level: e.target.value })}><option value="">all levels</option>${levels.map((l) => html`<option value=${l}>${l}</option>`)}</select></label>
      <${Search} label="Search the log" value=${query.search || ''} onChange=${(/** @type {string} */ v) => narrow({ search: v })} data-testid="search" />
      <button type="button" aria-pressed=${follow} data-testid="follow" onClick=${() => narrow({ follow: follow ? 'no' : undefined })}>Follow</button> <button type="button" onClick=${take}>Export</button>`}>
    <${Trouble} error=${state.error} />
    ${state.logs.length ? html`<ol class="log" aria-label="Records">${state.logs.slice(-drawn).map((l) => html`<${Line} key=${l.n} of=${l} />`)}</ol>` : state.read ? html`<${Empty}>No record is like that.<//>` : null}<div ref=${end}></div><//>`;
}

/** @param {{of: any}} props */
function Line({ of }) {
  const facts = Object.entries(of.attributes || {});
  const component = of.attributes?.component;
  return html`<li data-level=${of.level}><time datetime=${of.time} title=${new Date(of.time).toLocaleString()}>${new Date(of.time).toLocaleTimeString([], { hour12: false })}</time> <${Badge} kind=${kinds[of.level] || 'calm'}>${of.level}<//> ${component ? html`<span class="soft">${component}</span> ` : null}<span class="said">${plain(of.message)}</span> ${facts.filter(([k]) => k !== 'component').map(([k, v]) => html`<span class="fact"><span class="soft">${k}=</span>${typeof v === 'string' ? plain(v) : JSON.stringify(v)}</span> `)}</li>`;
}
