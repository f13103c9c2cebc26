// Small parts that all pages are made of.
import { html, h, useState, useEffect, useRef } from './html.js';
import { api, locked, entries } from './api.js';
import { follow } from './focus.js';
import { Link } from './router.js';
import { seen } from './text.js';

/** @param {{title: string, actions?: any, children?: any}} props */
export function Page({ title, actions, children }) {
  useEffect(() => {
    const before = document.title;
    document.title = seen(title) + ' · Stoa';
    return () => {
      document.title = before; // of the page that waits behind a lock
    };
  }, [title]);
  return html`<main id="main" tabindex="-1"><header class="page"><h1>${title}</h1><div class="actions">${actions}</div></header>
    ${children}</main>`;
}

/** How long after something was chosen it is kept in sight, in milliseconds. */
const settling = 1500;

/**
 * What was chosen from a list, beside it; on a narrow screen in its place, until it is closed.
 * @param {{label: string, back: string, query?: any, testid?: string, children?: any}} props back is the address of the list
 */
export function Side({ label, back, query, testid, children }) {
  const at = useRef(/** @type {HTMLElement|null} */ (null));
  const chosen = useRef({ label: '', when: 0 });
  useEffect(() => {
    if (chosen.current.label !== label) chosen.current = { label, when: Date.now() };
    // What stands above it may still come and push it out of sight.
    const fresh = Date.now() - chosen.current.when < settling;
    if (fresh && at.current && at.current.getBoundingClientRect().top > innerHeight - 100) at.current.scrollIntoView();
  });
  return html`<section class="side" tabindex="-1" ref=${at} aria-label=${label} data-testid=${testid}><p class="close">
    <${Link} to=${back} query=${query} data-testid="close">Close<//></p>${children}</section>`;
}

/** What went wrong, and what to do. @param {{error: any}} props */
export function Trouble({ error }) {
  if (!error) return null;
  return html`<div class="trouble" role="alert"><strong>${error.message || String(error)}</strong>${error.hint ? html`<span>
    ${error.hint}</span>` : null}</div>`;
}

/** @param {{children?: any}} props */
export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

/** A number of things. @param {number} n @param {string} one @param {string} [more] */
export function many(n, one, more = one + 's') {
  return `${n} ${n === 1 ? one : more}`;
}

/** A word in a colour. kind is good, bad, warn, busy or calm. @param {{kind?: string, children?: any}} props */
export function Badge({ kind = 'calm', children }) {
  return html`<span class=${'badge ' + kind}>${children}</span>`;
}

const kinds = /** @type {Record<string, string>} */ ({
  connected: 'good',
  ready: 'good',
  done: 'good',
  on: 'good',
  completed: 'good',
  open: 'good',
  running: 'busy',
  working: 'busy',
  connecting: 'busy',
  misconfigured: 'bad',
  starting: 'busy',
  retrying: 'busy',
  undoing: 'busy',
  failed: 'bad',
  error: 'bad',
  lost: 'bad',
  unknown: 'bad',
  denied: 'bad',
  paused: 'warn',
  waiting: 'warn',
  pending: 'calm',
  skipped: 'calm',
  stopped: 'warn',
  warn: 'warn',
  cancelled: 'warn',
  input_required: 'warn',
});

/** The state of something, in its colour. @param {{is: string}} props */
export function State({ is }) {
  return html`<${Badge} kind=${kinds[is] || 'calm'}>${is || '—'}<//>`;
}

/**
 * A button that says what came of it. While it works it does nothing, but keeps the focus, which one that is disabled loses.
 * @param {any} props
 */
export function Button({ onClick, children, danger, ...rest }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const click = async (/** @type {Event} */ e) => {
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      await onClick?.(e);
    } catch (err) {
      setError(err);
    } finally {
      setBusy(false);
    }
  };
  return html`<button type="button" class=${danger ? 'danger' : ''} aria-disabled=${busy} aria-busy=${busy}
    onClick=${click} ...${rest}>${children}</button>${error ? html`<${Trouble} error=${error} />` : null}`;
}

/** A text that can be copied. @param {{text: string, label?: string}} props */
export function Copy({ text, label = 'Copy' }) {
  const [done, setDone] = useState(false);
  return html`<button type="button" class="small" onClick=${async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  }}>${done ? 'Copied' : label}</button>`;
}

/**
 * What the API says at a path, asked again every so often and when again is called. Who calls it often is answered as
 * often as the hub can: a question that is under way is not given up for the next.
 * @param {string|null} path @param {number} [every] milliseconds; 0 means once
 * @param {number} [pause] milliseconds between two questions at least, however often again is called
 * @returns {{data: any, error: any, again: () => void, loading: boolean}}
 */
export function useApi(path, every = 0, pause = 250) {
  const [state, set] = useState(/** @type {any} */ ({ data: null, error: null, loading: true }));
  const again = useRef(() => {});
  useEffect(() => {
    again.current = () => {};
    if (!path) {
      set({ data: null, error: null, loading: false });
      return;
    }
    const abort = new AbortController();
    /** @type {any} */ let timer;
    let began = 0,
      busy = false,
      stale = false;
    const load = async () => {
      if (locked.value) {
        timer = setTimeout(load, 500); // nothing is asked until somebody has said who they are
        return;
      }
      [began, busy, stale] = [performance.now(), true, false];
      try {
        const data = await api(path, { signal: abort.signal });
        set({ data, error: null, loading: false });
      } catch (error) {
        if (abort.signal.aborted) return;
        // What one token may see is not for the next.
        const forbidden = /** @type {any} */ (error).status === 403;
        set((/** @type {any} */ old) => ({ data: forbidden ? null : old.data, error, loading: false }));
      }
      busy = false;
      if (stale || locked.value) soon();
      else if (every && !abort.signal.aborted) timer = setTimeout(load, document.hidden ? every * 5 : every);
    };
    const soon = () => {
      stale = busy;
      clearTimeout(timer);
      if (!busy && !abort.signal.aborted) timer = setTimeout(load, Math.max(0, began + pause - performance.now()));
    };
    again.current = soon;
    load();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [path, every, entries.value]);
  return { ...state, again: () => again.current() };
}

/** Whether somebody can see the page now. @returns {boolean} */
export function useSeen() {
  const [seen, setSeen] = useState(!document.hidden);
  useEffect(() => {
    const look = () => setSeen(!document.hidden);
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, []);
  return seen;
}

/**
 * A field to search with; says what is in it a moment after the last key. Until then the page may be drawn again, with
 * the value of before; what was typed stays.
 * @param {any} props
 */
export function Search({ value, onChange, label = 'Search', ...rest }) {
  const timer = useRef(/** @type {any} */ (null));
  const [typed, setTyped] = useState(/** @type {string|null} */ (null));
  useEffect(() => () => clearTimeout(timer.current), []);
  return html`<input type="search" aria-label=${label} placeholder=${label} value=${typed ?? value}
    onInput=${(/** @type {any} */ e) => {
      const v = e.target.value;
      setTyped(v);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => {
        setTyped(null);
        onChange(v);
      }, 150);
    }} ...${rest} />`;
}

/**
 * Something that scrolls by itself where there is too much of it. It can then be reached and scrolled by keys.
 * @param {any} props as is the element, label what a person is told it is
 */
export function Scroll({ as = 'div', label = 'More, by scrolling', children, ...rest }) {
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  const [over, setOver] = useState(false);
  const look = () => {
    const e = box.current;
    if (e)
      setOver(
        e.scrollWidth > e.clientWidth + 1 ||
          (e.scrollHeight > e.clientHeight + 1 && getComputedStyle(e).overflowY !== 'visible'),
      );
  };
  useEffect(() => {
    const sized = new ResizeObserver(look);
    if (box.current) sized.observe(box.current);
    return () => sized.disconnect();
  }, []);
  useEffect(look);
  return h(as, { ...rest, ref: box, ...(over ? { tabIndex: 0, role: 'group', 'aria-label': label } : {}) }, children);
}

/** A long name or path, which is broken between its parts where there is no room for all of it. @param {{text: string}} props */
export function Parts({ text }) {
  return text.split(/(?<=[./,:_])(?=[^./,:_])/).map((part, i) => [i ? html`<wbr />` : null, part]);
}

/** Text as it was written. @param {any} props */
export function Pre({ children, ...rest }) {
  return html`<${Scroll} as="pre" label="Text" ...${rest}>${children}<//>`;
}

/** A table. columns: {key, title, render?, className?, sort?}. @param {{columns: any[], rows: any[], empty?: any, rowKey?: (r: any) => string, onRow?: (r: any) => void, selected?: string}} props */
export function Table({ columns, rows, empty = 'Nothing here.', rowKey = (r) => r.name ?? r.id, onRow, selected }) {
  if (!rows.length) return html`<${Empty}>${empty}<//>`;
  return html`<${Scroll} class="scroll" label="Table"><table role="table" class="stacks"><thead role="rowgroup"><tr role="row">
    ${columns.map((c) => html`<th role="columnheader" scope="col" class=${c.className || ''}>
    ${c.title || html`<span class="hide">Actions</span>`}</th>`)}</tr></thead>
    <tbody role="rowgroup">${rows.map(
      (
        r,
      ) => html`<tr role="row" key=${rowKey(r)} class=${(onRow ? 'link ' : '') + (selected === rowKey(r) ? 'selected' : '')}
        tabindex=${onRow ? 0 : undefined}
      onClick=${onRow ? () => onRow(r) : undefined} onKeyDown=${
        onRow
          ? (/** @type {KeyboardEvent} */ e) => {
              if (e.key !== 'Enter' || e.target !== e.currentTarget) return;
              onRow(r);
              follow(/** @type {HTMLElement} */ (e.currentTarget));
            }
          : undefined
      }>
      ${columns.map((c) => html`<td role="cell" class=${c.className || ''} data-title=${c.title}>
      ${c.render ? c.render(r) : r[c.key]}</td>`)}</tr>`,
    )}</tbody></table><//>`;
}

/** @param {number} n */
export function bytes(n) {
  if (n == null) return '';
  for (const u of ['B', 'KiB', 'MiB', 'GiB']) {
    if (n < 1024 || u === 'GiB') return (u === 'B' ? n : n.toFixed(1)) + ' ' + u;
    n /= 1024;
  }
  return '';
}

/** @param {number} us microseconds */
export function took(us) {
  if (us == null) return '';
  if (us < 1000) return us + ' µs';
  if (us < 1_000_000) return (us / 1000).toFixed(us < 10_000 ? 1 : 0) + ' ms';
  return (us / 1_000_000).toFixed(1) + ' s';
}

/** A time, as a moment of today or a date, with the whole of it on hover. @param {{at: string|number|null|undefined}} props */
export function Time({ at }) {
  if (!at) return '—';
  const d = new Date(at);
  const today = d.toDateString() === new Date().toDateString();
  return html`<time datetime=${d.toISOString()} title=${d.toLocaleString()}>
    ${today ? d.toLocaleTimeString() : d.toLocaleDateString()}</time>`;
}
