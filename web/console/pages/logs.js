// Logs: the hub's log, by level and text, and as it is written.
import { html, useState, useEffect, useRef } from '../lib/html.js';
import { api } from '../lib/api.js';
import { narrow } from '../lib/router.js';
import { Page, Trouble, Empty, Search, Badge } from '../lib/ui.js';
import { save } from '../lib/save.js';
import { plain } from '../lib/text.js';

const kept = 2000;
const drawn = 500; // of those that are kept, the newest
const levels = ['trace', 'debug', 'info', 'warn', 'error'];
let numbered = 0;
const kinds = /** @type {Record<string, string>} */ ({ error: 'bad', warn: 'warn', info: 'busy' });

/**
 * The records that are wanted; while follow is on, also those that come. What was missed meanwhile is fetched when it is on again.
 * @param {string} want the query @param {boolean} follow
 */
function useLogs(want, follow) {
  const [state, set] = useState(
    /** @type {{logs: any[], error: any, read: boolean}} */ ({ logs: [], error: null, read: false }),
  );
  const at = useRef({ want: '', next: -1 });
  useEffect(() => {
    const abort = new AbortController();
    /** @type {any} */ let timer;
    if (at.current.want !== want) at.current = { want, next: -1 };
    const load = async () => {
      const { next } = at.current;
      let wait = document.hidden ? 5000 : 1000;
      try {
        const q = new URLSearchParams(want);
        q.set('limit', next < 0 ? '300' : '1000');
        if (next >= 0) q.set('after', String(next));
        const page = await api('/api/v1/logs?' + q, { signal: abort.signal });
        at.current.next = page.next;
        for (const l of page.logs) l.n = ++numbered; // so that a row stays that of its record
        if (page.logs.length >= 1000) wait = 0; // there are more
        set((old) => ({
          logs: next < 0 ? page.logs : page.logs.length ? old.logs.concat(page.logs).slice(-kept) : old.logs,
          error: null,
          read: true,
        }));
      } catch (error) {
        if (abort.signal.aborted) return;
        set((old) => ({ ...old, error, read: true }));
      }
      if (follow && !abort.signal.aborted) timer = setTimeout(load, wait);
    };
    if (follow || at.current.next < 0) load();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [want, follow]);
  return state;
}

/** Whether the end of the page is seen; it is not when somebody scrolled up to read. */
function useEnd() {
  const [seen, setSeen] = useState(true);
  useEffect(() => {
    let last = scrollY;
    const look = () => {
      if (innerHeight + scrollY >= document.documentElement.scrollHeight - 40) setSeen(true);
      else if (scrollY < last) setSeen(false);
      last = scrollY;
    };
    addEventListener('scroll', look, { passive: true });
    return () => removeEventListener('scroll', look);
  }, []);
  return { seen, setSeen };
}

/** @param {{query: Record<string, string>}} props */
export function Logs({ query }) {
  const follow = query.follow !== 'no';
  const want = new URLSearchParams(
    Object.entries({ level: query.level || '', search: query.search || '' }).filter(([, v]) => v),
  ).toString();
  const { logs, error, read } = useLogs(want, follow);
  const { seen, setSeen } = useEnd();
  const end = () => scrollTo(0, document.documentElement.scrollHeight);
  useEffect(() => {
    if (follow && seen) end();
  }, [logs, follow, seen]);
  const take = () =>
    save('stoa-log.ndjson', logs.map(({ n: _, ...l }) => JSON.stringify(l) + '\n').join(''), 'application/x-ndjson');
  const level = html`<label>From <select data-testid="level" value=${query.level || ''}
    onChange=${(/** @type {any} */ e) => narrow({ level: e.target.value })}>
    <option value="">all levels</option>${levels.map((l) => html`<option value=${l}>${l}</option>`)}</select></label>`;
  return html`<${Page} title="Logs" actions=${html`${level}
      <${Search} label="Search the log" value=${query.search || ''} onChange=${(/** @type {string} */ v) => narrow({ search: v })}
      data-testid="search" />
      <button type="button" aria-pressed=${follow} data-testid="follow" onClick=${() => {
        setSeen(true);
        narrow({ follow: follow ? 'no' : undefined });
      }}>Follow</button>
      <button type="button" data-testid="export" onClick=${take}>Export</button>`}>
    <${Trouble} error=${error} />
    ${logs.length ? html`<ol class="log" aria-label="Records">${logs.slice(-drawn).map((l) => html`<${Line} key=${l.n} of=${l}
    />`)}</ol>` : read ? html`<${Empty}>No record is like that.<//>` : null}
    ${
      follow && !seen
        ? html`<button type="button" class="end" data-testid="to-end" onClick=${() => {
            setSeen(true);
            end();
          }}>To the newest ↓</button>`
        : null
    }<//>`;
}

/** @param {{of: any}} props */
function Line({ of }) {
  const facts = Object.entries(of.attributes || {});
  const component = of.attributes?.component;
  return html`<li data-level=${of.level}><time datetime=${of.time} title=${new Date(of.time).toLocaleString()}>
    ${new Date(of.time).toLocaleTimeString([], { hour12: false })}</time> <${Badge} kind=${kinds[of.level] || 'calm'}>${of.level}
    <//> ${component ? html`<span class="soft">${component}</span> ` : null}<span class="said">${plain(of.message)}
    </span> ${facts.filter(([k]) => k !== 'component').map(([k, v]) => html`<span class="fact"><span class="soft">${k}=</span>
    ${typeof v === 'string' ? plain(v) : JSON.stringify(v)}</span> `)}</li>`;
}
