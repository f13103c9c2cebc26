// Which page is shown, and with what. Every view has an address that can be
// kept and sent to others.
import { html, signal, useCallback } from './html.js';

const here = () => ({
  path: location.pathname.replace(/^\/console\/?/, ''),
  query: Object.fromEntries(new URLSearchParams(location.search)),
});

/** @type {import('@preact/signals').Signal<{path: string, query: Record<string, string>}>} */
export const route = signal(here());

addEventListener('popstate', () => {
  route.value = here();
});

/** The address of a view. @param {string} path @param {Record<string, string|undefined>} [query] */
export function address(path, query = {}) {
  const set = Object.entries(query).filter(([, v]) => v !== undefined && v !== '');
  return '/console/' + path + (set.length ? '?' + new URLSearchParams(/** @type {[string,string][]} */ (set)) : '');
}

/** Goes to a view. @param {string} path @param {Record<string, string|undefined>} [query] @param {boolean} [replace] */
export function go(path, query = {}, replace = false) {
  history[replace ? 'replaceState' : 'pushState'](null, '', address(path, query));
  route.value = here();
}

/** Changes the query of the view that is shown. @param {Record<string, string|undefined>} change */
export function narrow(change) {
  go(route.value.path, { ...route.value.query, ...change }, true);
}

/** A link to a view of this page. @param {any} props */
export function Link({ to, query, children, ...rest }) {
  const click = useCallback(
    (/** @type {MouseEvent} */ e) => {
      if (e.metaKey || e.ctrlKey || e.shiftKey || e.button !== 0) return;
      e.preventDefault();
      go(to, query);
    },
    [to, JSON.stringify(query)],
  );
  return html`<a href=${address(to, query)} onClick=${click} ...${rest}>${children}</a>`;
}
