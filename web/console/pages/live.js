// Live: what happens in the hub, as it happens. A bounded list of the last
// records; pausing it keeps what is shown, and nothing is lost meanwhile.
import { html, useState, useEffect, useMemo, useRef } from '../lib/html.js';
import { useLayoutEffect } from 'preact/hooks';
import { api, ask, entries } from '../lib/api.js';
import { listen, missed, restarts } from '../lib/events.js';
import { narrow, Link } from '../lib/router.js';
import { save } from '../lib/save.js';
import { Page, Trouble, Empty, Badge, Button, Search, Copy, useApi, took } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { Store, keyOf, wants, levels, levelOf } from './live_store.js';
import { Exchange } from './live_exchange.js';
import { Trace } from './live_trace.js';
import { RunningCalls } from './live_running.js';

const most = 5000; // records that are kept
const piece = 500; // records that are asked for at once
const step = 200; // rows that are drawn, and that are drawn more on demand
const pace = 250; // milliseconds between two looks at what came
const slowest = 2000; // the same, where drawing takes long
const share = 25; // of the time between two looks, a 25th goes into drawing
const mostOpen = 20; // rows that stay, because they are open, after newer ones have taken their place
const settling = 1000; // milliseconds between two changes of what can be chosen

/** What the hub still knows, and what comes. */
function useRecords() {
  const store = useMemo(() => new Store(most), []);
  const cost = useRef(0); // of the last drawing, in milliseconds
  const [state, set] = useState(/** @type {{turn: number, error: any}} */ ({ turn: 0, error: null }));
  useEffect(() => {
    const abort = new AbortController();
    const draw = () => set((s) => ({ ...s, turn: s.turn + 1 }));
    let fresh = /** @type {any[]} */ ([]);
    let ready = false;
    let hubs = restarts.value;
    /** @type {any} */ let timer;
    const end = listen((e) => {
      if (hubs !== restarts.value) {
        store.add(fresh);
        store.anew();
        [fresh, hubs] = [[], restarts.value];
      }
      fresh.push(e);
      if (fresh.length > 2 * most) fresh = fresh.slice(-most);
    });
    const take = () => {
      if (ready && fresh.length && !document.hidden) {
        store.add(fresh);
        fresh = [];
        draw();
      }
      timer = setTimeout(take, Math.min(slowest, Math.max(pace, cost.current * share)));
    };
    const before = async () => {
      let after = 0;
      for (let i = 0; i < most / piece; i++) {
        const page = await api(`/api/v1/events?after=${after}&limit=${piece}&wait=0s`, { signal: abort.signal });
        store.add(page.events);
        after = page.next;
        if (page.events.length < piece) break;
        draw();
      }
    };
    set((s) => ({ ...s, error: null }));
    before()
      .catch((error) => {
        if (!abort.signal.aborted) set((s) => ({ ...s, error }));
      })
      .finally(() => {
        ready = true;
        draw();
        take();
      });
    return () => {
      abort.abort();
      clearTimeout(timer);
      end();
    };
  }, [entries.value]);
  return { store, cost, error: state.error };
}

/** @param {{rest: string[], query: Record<string, string>}} props */
export function Live({ rest, query }) {
  const began = performance.now();
  const { store, cost, error } = useRecords();
  useLayoutEffect(() => {
    cost.current = performance.now() - began;
  });
  const [paused, setPaused] = useState(/** @type {{all: any[], n: number}|null} */ (null));
  const [drawn, setDrawn] = useState(step);
  const key = keyOf(query);
  useEffect(() => setDrawn(step), [key]);
  store.want(query);
  const still = useMemo(() => paused && paused.all.filter(wants(query)), [paused, key]);
  const fits = still || store.fits;
  const pause = () => setPaused(paused ? null : { all: store.all.slice(), n: store.n });
  const told = [`${fits.length} of the last ${(paused?.all || store.all).length} records`];
  if (fits.length > drawn) told.push(`the newest ${drawn} shown`);
  if (paused) told.push(`paused, ${store.n - paused.n} since`);
  if (missed.value) told.push(`${missed.value} lost, as this page was too slow`);
  return html`<${Page} title="Live" actions=${html`<button type="button" data-testid="pause" aria-pressed=${!!paused}
    onClick=${pause}>${paused ? 'Go on' : 'Pause'}</button><${Export} fits=${fits} />`}>
    <${Trouble} error=${error} /><${RunningCalls} />
    <${Filters} query=${query} store=${store} turn=${store.n} />
    <p class="soft" role="status" data-testid="live-count">${told.join(' · ')}</p>
    ${rest[0] === 'trace' ? html`<${Trace} key=${rest[1]} id=${rest[1] || ''} query=${query} />` : rest[0] ? html`<${One}
    key=${rest[0]} seq=${rest[0]} query=${query} />` : null}
    ${fits.length ? html`<${Rows} fits=${fits} drawn=${drawn} query=${query} turn=${fits[fits.length - 1].n}
    />` : html`<${Empty}>Nothing that is like that has happened yet.<//>`}
    ${fits.length > drawn ? html`<button type="button" data-testid="older"
    onClick=${() => setDrawn(drawn + step)}>Show ${Math.min(step, fits.length - drawn)} older</button>` : null}<//>`;
}

/**
 * The newest records first. turn changes with them: a part whose props are the same is not drawn anew.
 * @param {{fits: any[], drawn: number, query: Record<string, string>, turn: number}} props
 */
function Rows({ fits, drawn, query }) {
  const opened = useRef(/** @type {Map<number, import('./live_store.js').Entry>} */ (new Map())).current;
  // A record never changes: what was made of it once is left alone.
  const made = useMemo(() => new WeakMap(), [JSON.stringify(query)]);
  const rows = /** @type {any[]} */ ([]);
  const draw = (/** @type {import('./live_store.js').Entry} */ entry) => {
    let row = made.get(entry);
    if (!row) made.set(entry, (row = html`<${Row} key=${entry.n} entry=${entry} query=${query} opened=${opened} />`));
    rows.push(row);
  };
  for (let i = fits.length - 1; i >= 0 && rows.length < drawn; i--) draw(fits[i]);
  // What somebody reads is not taken away, also when it is not kept any more.
  const oldest = fits[Math.max(0, fits.length - drawn)].n;
  const wanted = wants(query);
  for (const entry of [...opened.values()].filter((e) => e.n < oldest && wanted(e)).sort((a, b) => b.n - a.n))
    draw(entry);
  return html`<ol class="live" data-testid="live">${rows}</ol>`;
}

/** @param {{query: Record<string, string>, store: Store, turn: number}} props */
function Filters({ query, store }) {
  const known = useRef(
    /** @type {{at: number, changed: number, of: Record<string, string[]>}} */ ({ at: -Infinity, changed: -1, of: {} }),
  );
  const now = performance.now();
  if (known.current.changed !== store.changed && now - known.current.at >= settling) {
    const of = /** @type {Record<string, string[]>} */ ({ level: levels });
    for (const k of ['upstream', 'tool', 'session', 'type']) of[k] = store.choices(k);
    known.current = { at: now, changed: store.changed, of };
  }
  const [, again] = useState(0);
  const stale = known.current.changed !== store.changed;
  useEffect(() => {
    if (!stale) return;
    const timer = setTimeout(() => again((n) => n + 1), settling);
    return () => clearTimeout(timer);
  }, [stale]);
  const of = known.current.of;
  return useMemo(
    () => html`<div class="bar filters"><${Search} label="Search" data-testid="live-search" value=${query.search || ''}
      onChange=${(/** @type {string} */ v) => narrow({ search: v })} />
    ${[
      ['upstream', 'Server'],
      ['tool', 'Tool'],
      ['session', 'Session'],
      ['level', 'Level'],
      ['type', 'Type'],
    ].map(
      ([k, title]) => html`<${Pick} key=${k} name=${k} title=${title} value=${query[k] || ''} of=${of[k] || []} />`,
    )}
    ${
      query.trace
        ? html`<span data-testid="live-trace">Trace <span class="mono">${query.trace}</span>${' '}
      <button type="button" class="small" data-testid="no-trace-filter" aria-label="Remove this filter: show other traces too"
      onClick=${() => narrow({ trace: '' })}>Remove</button></span>`
        : null
    }</div>`,
    [of, keyOf(query)],
  );
}

/** @param {{name: string, title: string, value: string, of: string[]}} props */
function Pick({ name, title, value, of }) {
  const all = value && !of.includes(value) ? [...of, value] : of;
  return html`<label>${title} <select data-testid=${'live-' + name} value=${value}
    onChange=${(/** @type {any} */ e) => narrow({ [name]: e.target.value })}>
    <option value="">all</option>${all.map((v) => html`<option key=${v} value=${v}>${v}</option>`)}</select></label>`;
}

const clock = new Intl.DateTimeFormat([], { timeStyle: 'medium' });

/** @param {{entry: import('./live_store.js').Entry, query: Record<string, string>, opened: Map<number, import('./live_store.js').Entry>}} props */
function Row({ entry, query, opened }) {
  const record = entry.record;
  const [open, setOpen] = useState(false);
  useEffect(
    () => () => {
      opened.delete(entry.n);
    },
    [],
  );
  const level = levelOf(record);
  const about = [
    record.session && 'in ' + record.session,
    record.run,
    record.step,
    record.took_us != null && took(record.took_us),
  ]
    .filter(Boolean)
    .join(' · ');
  const toggle = (/** @type {any} */ e) => {
    if (e.target !== e.currentTarget) return;
    setOpen(e.currentTarget.open);
    opened.delete(entry.n);
    if (e.currentTarget.open) opened.set(entry.n, entry);
    if (opened.size > mostOpen) opened.delete(opened.keys().next().value ?? 0); // the one that was opened first
  };
  return html`<li><details onToggle=${toggle}><summary><time class="mono soft" datetime=${record.time}>
    ${clock.format(new Date(record.time))}</time>
    <${Badge} kind=${level === 'error' ? 'bad' : level === 'warning' ? 'warn' : 'calm'}>${record.type}<//> <span class="mono">
    ${[record.upstream, record.tool].filter(Boolean).join(':')}</span>
    ${record.kind ? html`<span class=${level === 'info' ? 'soft' : 'failed'}>${record.kind}</span>` : null} <span class="soft">
    ${about}</span></summary>
    ${open ? html`<div class="bar"><${Link} to=${'live/' + record.seq} query=${query}>Link to this<//>
    <${Traced} record=${record} /></div><${Whole} record=${record} />` : null}</details></li>`;
}

/** Ways to what else happened in the trace of a record. @param {{record: any}} props */
function Traced({ record }) {
  if (!record.trace) return null;
  return html`<${Link} to="live" query=${{ trace: record.trace }} data-testid="only-trace">Only this trace<//>
    <${Link} to=${'live/trace/' + record.trace} query=${{ trace: record.trace }}
    data-testid="show-trace">The trace as a tree<//>`;
}

/** All there is of a record: the raw exchange, and the record itself. @param {{record: any}} props */
function Whole({ record }) {
  if (!record.call) return html`<${Json} value=${record} />`;
  return html`<${Exchange} call=${record.call} /><details><summary>The record</summary><${Json} value=${record} /></details>`;
}

/** The record that the address names. @param {{seq: string, query: Record<string, string>}} props */
function One({ seq, query }) {
  const n = Number(seq);
  const { data, error } = useApi(n > 0 ? `/api/v1/events?after=${n - 1}&limit=1&wait=0s` : null);
  const found = data?.events?.find((/** @type {any} */ e) => e.seq === n);
  return html`<section class="card" aria-label=${'Record ' + seq} data-testid="one"><div class="bar"><h2>Record ${seq}</h2>
    ${found ? html`<span class="mono">
    ${[found.type, [found.upstream, found.tool].filter(Boolean).join(':'), found.kind].filter(Boolean).join(' · ')}</span>
    <${Copy} text=${location.href} label="Copy the link" /><${Traced} record=${found} />` : null}
    <${Link} to="live" query=${query}>Close<//></div><${Trouble} error=${error} />
    ${found ? html`<${Whole} record=${found} />` : data ? html`<${Empty}>The hub does not keep it any more.<//>` : null}
    </section>`;
}

/** Gives the records that are wanted to a file, one a line. @param {{fits: any[]}} props */
function Export({ fits }) {
  const [raw, setRaw] = useState(false);
  const write = async () => {
    const exchanges = new Map();
    if (raw) {
      const text = await (await ask('/api/v1/exchanges/export')).text();
      for (const line of text.split('\n')) {
        if (!line) continue;
        const x = JSON.parse(line);
        exchanges.set(x.call, x);
      }
    }
    // An exchange goes with the last record of its call.
    const lines = [];
    for (let i = fits.length - 1; i >= 0; i--) {
      const record = fits[i].record;
      const exchange = exchanges.get(record.call);
      exchanges.delete(record.call);
      lines.push(JSON.stringify(exchange ? { ...record, exchange } : record) + '\n');
    }
    save('stoa-events.ndjson', lines.reverse().join(''), 'application/x-ndjson');
  };
  return html`<label class="check">
    <input type="checkbox" data-testid="with-raw" checked=${raw} onChange=${(/** @type {any} */ e) => setRaw(e.target.checked)}
    /> with exchanges</label>
    <${Button} data-testid="export" onClick=${write}>Export NDJSON<//>`;
}
