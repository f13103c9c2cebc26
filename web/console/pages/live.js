// Live: what happens in the hub, as it happens. A bounded list of the last
// records; pausing it keeps what is shown, and nothing is lost meanwhile.
import { html, useState, useEffect, useRef } from '../lib/html.js';
import { api } from '../lib/api.js';
import { listen, missed } from '../lib/events.js';
import { narrow, Link } from '../lib/router.js';
import { Page, Trouble, Empty, Badge, Search, Copy, useApi, took } from '../lib/ui.js';
import { Json } from '../lib/json.js';

const most = 5000; // records that are kept
const shown = 200; // rows that are drawn
const pace = 250; // milliseconds between two looks at what came

const levels = ['debug', 'info', 'warning', 'error'];

/** How important a record is. @param {any} e */
export function levelOf(e) { return e.level || (e.kind && e.type === 'call.done' ? 'error' : 'info'); }

/** Whether a record is wanted. @param {any} e @param {Record<string, string>} q */
export function matches(e, q) {
  if (q.upstream && e.upstream !== q.upstream || q.session && e.session !== q.session || q.type && !e.type.startsWith(q.type)) return false;
  if (q.tool && !(e.tool || '').includes(q.tool)) return false;
  if (q.level && levels.indexOf(levelOf(e)) < levels.indexOf(q.level)) return false;
  return !q.search || JSON.stringify(e).toLowerCase().includes(q.search.toLowerCase());
}

/** What the hub still knows, and what comes. */
function useRecords() {
  const all = useRef(/** @type {any[]} */ ([]));
  const [state, set] = useState(/** @type {{turn: number, error: any}} */ ({ turn: 0, error: null }));
  useEffect(() => {
    const abort = new AbortController();
    let fresh = /** @type {any[]} */ ([]), before = true;
    const end = listen((e) => { fresh.push(e); if (fresh.length > 2 * most) fresh = fresh.slice(-most); });
    const take = () => {
      if (before || !fresh.length) return;
      const last = all.current.length ? all.current[all.current.length - 1].seq : 0;
      const restarted = fresh[0].seq < last && fresh[fresh.length - 1].seq < last;
      all.current = [...all.current, ...(restarted ? fresh : fresh.filter((e) => e.seq > last))].slice(-most);
      fresh = [];
      set((s) => ({ ...s, turn: s.turn + 1 }));
    };
    const timer = setInterval(take, pace);
    (async () => {
      let after = 0;
      for (let i = 0; i < 6; i++) {
        const page = await api(`/api/v1/events?after=${after}&limit=1000&wait=0s`, { signal: abort.signal });
        all.current = [...all.current, ...page.events].slice(-most);
        after = page.next;
        if (page.events.length < 1000) break;
      }
    })().catch((error) => { if (!abort.signal.aborted) set((s) => ({ ...s, error })); }).finally(() => { before = false; set((s) => ({ ...s, turn: s.turn + 1 })); take(); });
    return () => { abort.abort(); clearInterval(timer); end(); };
  }, []);
  return { all: all.current, error: state.error, clear: () => { all.current = all.current.slice(-1); set((s) => ({ ...s, turn: s.turn + 1 })); } };
}

/** @param {{rest: string[], query: Record<string, string>}} props */
export function Live({ rest, query }) {
  const { all, error } = useRecords();
  const [paused, setPaused] = useState(/** @type {any[]|null} */ (null));
  const list = paused || all;
  const fits = list.filter((e) => matches(e, query));
  const newest = fits.slice(-shown).reverse();
  const behind = paused ? all.length && paused.length ? all[all.length - 1].seq - paused[paused.length - 1].seq : 0 : 0;
  return html`<${Page} title="Live" actions=${html`<button type="button" data-testid="pause" aria-pressed=${!!paused} onClick=${() => setPaused(paused ? null : all)}>${paused ? 'Go on' : 'Pause'}</button><button type="button" data-testid="export" onClick=${() => download(fits)}>Export NDJSON</button>`}><${Trouble} error=${error} />
    <${Filters} query=${query} list=${all} />
    <p class="soft" role="status" data-testid="live-count">${fits.length} of the last ${list.length} records${fits.length > shown ? `, the newest ${shown} shown` : ''}${paused ? ` · paused, ${behind} since` : ''}${missed.value ? ` · ${missed.value} lost, as this page was too slow` : ''}</p>
    ${rest[0] ? html`<${One} key=${rest[0]} seq=${rest[0]} query=${query} />` : null}
    ${newest.length ? html`<ol class="live" data-testid="live">${newest.map((e) => html`<${Row} key=${e.seq} record=${e} query=${query} />`)}</ol>` : html`<${Empty}>Nothing that is like that has happened yet.<//>`}<//>`;
}

/** @param {{query: Record<string, string>, list: any[]}} props */
function Filters({ query, list }) {
  const some = (/** @type {string} */ k) => [...new Set(list.map((e) => e[k]).filter(Boolean))].sort().slice(0, 200);
  const pick = (/** @type {string} */ k, /** @type {string} */ title, /** @type {string[]} */ of) => html`<label>${title} <select data-testid=${'live-' + k} value=${query[k] || ''} onChange=${(/** @type {any} */ e) => narrow({ [k]: e.target.value })}><option value="">all</option>${[...new Set([...of, ...(query[k] ? [query[k]] : [])])].map((v) => html`<option value=${v}>${v}</option>`)}</select></label>`;
  return html`<div class="bar filters"><${Search} label="Search" data-testid="live-search" value=${query.search || ''} onChange=${(/** @type {string} */ v) => narrow({ search: v })} />
    ${pick('upstream', 'Server', some('upstream'))}${pick('tool', 'Tool', some('tool'))}${pick('session', 'Session', some('session'))}${pick('level', 'Level', levels)}${pick('type', 'Type', [...new Set(list.map((e) => e.type.split('.')[0]))].sort())}</div>`;
}

/** @param {{record: any, query: Record<string, string>}} props */
function Row({ record, query }) {
  const [open, setOpen] = useState(false);
  const level = levelOf(record);
  return html`<li><details onToggle=${(/** @type {any} */ e) => { if (e.target === e.currentTarget) setOpen(e.currentTarget.open); }}><summary><time class="mono soft" datetime=${record.time}>${new Date(record.time).toLocaleTimeString()}</time>
    <${Badge} kind=${level === 'error' ? 'bad' : level === 'warning' ? 'warn' : 'calm'}>${record.type}<//> <span class="mono">${[record.upstream, record.tool].filter(Boolean).join(':')}</span>
    ${record.kind ? html`<span class="failed">${record.kind}</span>` : null} <span class="soft">${[record.session && 'in ' + record.session, record.run, record.step, record.took_us != null && took(record.took_us)].filter(Boolean).join(' · ')}</span></summary>
    ${open ? html`<div class="bar"><${Link} to=${'live/' + record.seq} query=${query}>Link to this<//><${Copy} text=${JSON.stringify(record)} label="Copy as JSON" /></div><${Json} value=${record} />` : null}</details></li>`;
}

/** The record that the address names. @param {{seq: string, query: Record<string, string>}} props */
function One({ seq, query }) {
  const n = Number(seq);
  const { data, error } = useApi(n > 0 ? `/api/v1/events?after=${n - 1}&limit=1&wait=0s` : null);
  const found = data?.events?.find((/** @type {any} */ e) => e.seq === n);
  return html`<section class="card" aria-label=${'Record ' + seq} data-testid="one"><div class="bar"><h2>Record ${seq}</h2><${Link} to="live" query=${query}>Close<//></div><${Trouble} error=${error} />
    ${found ? html`<${Json} value=${found} />` : data ? html`<${Empty}>The hub does not keep it any more.<//>` : null}</section>`;
}

/** Gives records to a file, one a line. @param {any[]} list */
function download(list) {
  const url = URL.createObjectURL(new Blob(list.map((e) => JSON.stringify(e) + '\n'), { type: 'application/x-ndjson' }));
  const a = document.createElement('a');
  a.href = url;
  a.download = 'stoa-events.ndjson';
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
