// Calls to the hub's JSON API. What goes wrong is a Failure that says it in the
// hub's own words.
import { signal } from './html.js';
import { exact } from './jsontext.js';

/** Whether the hub wants a token that this browser has not given. */
export const locked = signal(false);

/** Whether the hub has known who is there since the page was loaded. */
export const welcome = signal(false);

/** How often a token was given: what was asked before says nothing of it. */
export const entries = signal(0);

export class Failure extends Error {
  /** @param {number} status @param {{message?: string, data?: {kind?: string, hint?: string, problems?: any[]}}} error */
  constructor(status, error) {
    super(error.message || `the hub answered ${status}`);
    this.status = status;
    this.kind = error.data?.kind || '';
    this.hint = error.data?.hint || '';
    this.data = error.data || {};
    /** Whether the hub does not know who asks. */
    this.stranger = false;
  }
}

/**
 * @param {string} path
 * @param {{method?: string, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<any>} what the hub answered, decoded
 */
export async function api(path, options = {}) {
  const response = await ask(path, options);
  const text = await response.text();
  return text === '' ? null : exact(text);
}

/** Waits until it is known who is there. @param {AbortSignal} [stop] */
function entered(stop) {
  return new Promise((yes, no) => {
    /** @type {() => void} */ let end = () => {};
    const over = () => {
      end();
      stop?.removeEventListener('abort', over);
      if (stop?.aborted) no(stop.reason);
      else yes(undefined);
    };
    stop?.addEventListener('abort', over);
    end = locked.subscribe((is) => {
      if (!is) queueMicrotask(over);
    });
    if (stop?.aborted) over();
  });
}

/**
 * The same, for what is not JSON. Who only looks waits while the page is locked, and looks again when a token that was
 * good is so no more: then the page goes on where it was. What changes something is never repeated.
 * @param {string} path @param {any} [options] again says that the request may be repeated; what has no method may be
 */
export async function ask(path, options = {}) {
  const { again = !options.method, ...request } = options;
  for (;;) {
    if (again && locked.value) await entered(request.signal);
    const at = entries.value;
    try {
      return await once(path, request);
    } catch (e) {
      if (!(e instanceof Failure) || !e.stranger) throw e;
      if (at === entries.value) locked.value = true;
      if (!again) throw e;
    }
  }
}

/** Asks once. @param {string} path @param {any} options */
async function once(path, options) {
  const { body, headers = {}, ...rest } = options;
  if (body !== undefined) {
    const whole = typeof body === 'string' || body instanceof Blob;
    rest.body = whole ? body : JSON.stringify(body);
    headers['Content-Type'] ||= body instanceof Blob ? body.type || 'application/octet-stream' : 'application/json';
  }
  let response;
  try {
    response = await fetch(path, { credentials: 'same-origin', headers, ...rest });
  } catch (e) {
    if (rest.signal?.aborted) throw e;
    throw new Failure(0, {
      message: 'the hub cannot be reached',
      data: { hint: 'It may have been stopped; the page tries again by itself.' },
    });
  }
  // Who came too often with a bad token gets another status.
  const stranger = response.status === 401 || response.headers.has('WWW-Authenticate');
  if (!stranger) welcome.value = true;
  if (response.ok) return response;
  let error = {};
  try {
    const body = await response.json();
    error = body.error?.message ? body.error : { message: body.error || body.message };
  } catch {
    /* not JSON: the status says it */
  }
  const failure = new Failure(response.status, error);
  failure.stranger = stranger;
  throw failure;
}

/** Finds out whether the hub still knows this browser, waiting while the page is locked. @param {AbortSignal} [stop] */
export async function known(stop) {
  await ask('/console/login', { method: 'POST', again: true, signal: stop });
}

/** Gives the hub a token, which it then keeps in a cookie. @param {string} token */
export async function unlock(token) {
  await ask('/console/login', { method: 'POST', headers: { Authorization: 'Bearer ' + token.trim() } });
  entries.value++;
  locked.value = false;
}

/** Takes a token out of the address, where `stoa console` puts it. */
export async function unlockFromAddress() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, '', location.pathname + location.search);
  await unlock(decodeURIComponent(found[1]));
}
