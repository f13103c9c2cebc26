// Calls to the hub's JSON API. What goes wrong is a Failure that says it in the
// hub's own words.
import { signal } from './html.js';
import { exact } from './jsontext.js';

/** Whether the hub wants a token that this browser has not given. */
export const locked = signal(false);

let unlocked = 0; // how often a token was given: what was asked before says nothing of it

export class Failure extends Error {
  /** @param {number} status @param {{message?: string, data?: {kind?: string, hint?: string, problems?: any[]}}} error */
  constructor(status, error) {
    super(error.message || `the hub answered ${status}`);
    this.status = status;
    this.kind = error.data?.kind || '';
    this.hint = error.data?.hint || '';
    this.data = error.data || {};
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

/** The same, for what is not JSON. @param {string} path @param {any} [options] */
export async function ask(path, options = {}) {
  const { body, headers = {}, ...rest } = options;
  if (body !== undefined) {
    const whole = typeof body === 'string' || body instanceof Blob;
    rest.body = whole ? body : JSON.stringify(body);
    headers['Content-Type'] ||= body instanceof Blob ? body.type || 'application/octet-stream' : 'application/json';
  }
  const at = unlocked;
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
  if (response.ok) return response;
  if (response.status === 401 && at === unlocked) locked.value = true;
  let error = {};
  try {
    const body = await response.json();
    error = body.error?.message ? body.error : { message: body.error || body.message };
  } catch {
    /* not JSON: the status says it */
  }
  throw new Failure(response.status, error);
}

/** Gives the hub a token, which it then keeps in a cookie. @param {string} token */
export async function unlock(token) {
  await ask('/console/login', { method: 'POST', headers: { Authorization: 'Bearer ' + token.trim() } });
  unlocked++;
  locked.value = false;
}

/** Takes a token out of the address, where `stoa console` puts it. */
export async function unlockFromAddress() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, '', location.pathname + location.search);
  await unlock(decodeURIComponent(found[1]));
}
