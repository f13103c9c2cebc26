// Two runs side by side: what they were given and what came of each step, where
// that differs.
import { html, useEffect, useState } from '../lib/html.js';
import { Link, go, narrow } from '../lib/router.js';
import { Page, State, Trouble, Empty, Time, useApi } from '../lib/ui.js';
import { ask } from '../lib/api.js';
import { Lines } from '../lib/diff.js';
import { indent, part } from '../lib/jsontext.js';

const most = 200; // differences that are shown

/** @param {{query: Record<string, string>}} props */
export function Compare({ query }) {
  const { data: list } = useApi('/api/v1/runs?limit=200');
  const both = query.a && query.b;
  const { data, text, error } = useComparison(query.a, query.b);
  const choose = (
    /** @type {'a'|'b'} */ side,
    /** @type {string} */ label,
  ) => html`<label>${label} <select data-testid=${'side-' + side} value=${query[side] || ''}
    onChange=${(/** @type {any} */ e) => narrow({ [side]: e.target.value })}><option value="">choose</option>
    ${(list?.runs || []).map((/** @type {any} */ r) => html`<option value=${r.id}>${r.title || 'untitled'} · ${r.status} · ${r.id}
    </option>`)}</select></label>`;
  return html`<${Page} title="Compare runs" actions=${html`<button type="button" data-testid="swap"
    onClick=${() => go('plans/compare', { a: query.b, b: query.a }, true)}>Swap</button>`}>
    <div class="fields">${choose('a', 'First')}${choose('b', 'Second')}</div><${Trouble} error=${error} />
    ${!both ? html`<${Empty}>Choose two runs.<//>` : data ? html`<${Differences} data=${data} text=${text}
    />` : error ? null : html`<p class="loading">Loading…</p>`}<//>`;
}

/** What the hub says of two runs, also as it wrote it. @param {string|undefined} a @param {string|undefined} b */
function useComparison(a, b) {
  const [state, set] = useState(
    /** @type {{data: any, text: string, error: any}} */ ({ data: null, text: '', error: null }),
  );
  useEffect(() => {
    set({ data: null, text: '', error: null });
    if (!a || !b) return;
    const abort = new AbortController();
    (async () => {
      try {
        const text = await (
          await ask(`/api/v1/runs/${encodeURIComponent(a)}/compare?with=${encodeURIComponent(b)}&preview=20000`, {
            signal: abort.signal,
          })
        ).text();
        set({ data: JSON.parse(text), text, error: null });
      } catch (error) {
        if (!abort.signal.aborted) set({ data: null, text: '', error });
      }
    })();
    return () => abort.abort();
  }, [a, b]);
  return state;
}

/** @param {{data: any, text: string}} props */
function Differences({ data, text }) {
  // The text itself is compared: decoding would make large numbers the same.
  const side = (/** @type {number} */ i, /** @type {number} */ n) =>
    data.differences[i].values[n] === null ? [] : indent(part(text, `/differences/${i}/values/${n}`) || '').split('\n');
  const shown = data.differences.slice(0, most);
  return html`<div class="cards sides">${data.runs.map(
    (
      /** @type {any} */ r,
      /** @type {number} */ i,
    ) => html`<div class="card"><strong>${i ? 'Second' : 'First'}: <${Link} to=${'plans/' + encodeURIComponent(r.id)}>
      ${r.title || r.id}<//></strong> <${State} is=${r.status} />
      <div class="soft">${r.id} · ${r.done} of ${r.steps} steps · <${Time} at=${r.began} />
      ${r.from ? ` · a fork: ${r.from.reason}` : ''}</div></div>`,
  )}</div>
    <p role="status" data-testid="verdict">
    ${data.same ? 'Nothing differs, as far as both have come.' : `${data.differences.length} ${data.differences.length === 1 ? 'difference' : 'differences'}. Lines with − are of the first, those with + of the second.`}</p>
    ${shown.map(
      (
        /** @type {any} */ d,
        /** @type {number} */ i,
      ) => html`<section class="difference" data-testid="difference" data-name=${d.name}><h3>${d.kind} <span class="mono">
        ${d.name}</span>
        ${d.kind === 'step' ? (d.states[0] === d.states[1] ? html` <${State} is=${d.states[0]} />` : html` <${State}
        is=${d.states[0]} /> → <${State} is=${d.states[1]} />`) : null}</h3>
      <${Lines} before=${side(i, 0)} after=${side(i, 1)} /></section>`,
    )}
    ${data.differences.length > shown.length ? html`<p
    class="soft">… and ${data.differences.length - shown.length} more.</p>` : null}`;
}
