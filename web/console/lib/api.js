// Calls to the hub's JSON API. What goes wrong is a Failure that says it in the
// hub's own words.
import { signal } from './html.js';
import { exact } from './jsontext.js';
import { signedIn, keep, forget, credential, onOthers } from './signin.js';

/** Whether somebody has to sign in before anything can be asked. */
export const locked = signal(!signedIn.value);

/** Whether the hub has known who is there since the page was loaded. */
export const welcome = signal(false);

/** How often somebody has signed in: what was asked before says nothing of it. */
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
 * The same, for what is not JSON. Who only looks waits while the page is locked, and looks again when a sign-in that was
 * good is so no more: then the page goes on where it was. What changes something is never repeated.
 * @param {string} path @param {any} [options] again says that the request may be repeated; what has no method may be
 */
export async function ask(path, options = {}) {
  const { again = !options.method, ...request } = options;
  for (;;) {
    if (again && locked.value) await entered(request.signal);
    const secret = signedIn.value?.secret || '';
    try {
      return await once(path, request);
    } catch (e) {
      if (!(e instanceof Failure) || !e.stranger) throw e;
      refused(secret);
      if (!again) throw e;
    }
  }
}

/** Takes note that a sign-in is good no more. @param {string} secret */
export function refused(secret) {
  if (secret !== (signedIn.value?.secret || '')) return; // somebody has signed in since
  if (forget(secret)) entries.value++;
  else locked.value = true;
}

/** Asks once. @param {string} path @param {any} options stranger says that it is not to be told who asks */
async function once(path, options) {
  const { body, headers: own = {}, stranger: asStranger = false, ...rest } = options;
  const headers = { ...(asStranger ? {} : credential()), ...own };
  if (body !== undefined) {
    const whole = typeof body === 'string' || body instanceof Blob;
    rest.body = whole ? body : JSON.stringify(body);
    headers['Content-Type'] ||= body instanceof Blob ? body.type || 'application/octet-stream' : 'application/json';
  }
  let response;
  try {
    response = await fetch(path, { credentials: 'omit', headers, ...rest });
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
  await ask('/api/v1/sign-ins', { signal: stop });
}

/** What a code looks like, as people write it; everything else is a token. */
const codeForm = /^[0-9a-z]{4}[- ]?[0-9a-z]{4}[- ]?[0-9a-z]{4}$/i;

/** Exchanges a code or a token, neither of which is kept. @param {string} text @returns {Promise<import('./signin.js').SignIn>} */
async function exchanged(text) {
  const by = codeForm.test(text.trim())
    ? { body: { code: text.trim() }, stranger: true }
    : { headers: { Authorization: 'Bearer ' + text.trim() } };
  return (await once('/api/v1/sign-ins', { method: 'POST', ...by })).json();
}

/** @param {import('./signin.js').SignIn} made */
function enter(made) {
  keep(made);
  entries.value++;
  locked.value = false;
}

/** Signs in with what somebody has typed. @param {string} text */
export async function signIn(text) {
  enter(await exchanged(text));
}

/** What was wrong with the code that the page was opened with. */
export const codeTrouble = signal(/** @type {any} */ (null));

/**
 * Signs in with the code that is in the address, where `stoa console` has the browser find it. An address can be anybody's
 * doing: it must not have one person work as another.
 */
export async function signInFromAddress() {
  const found = /^#code=([^&]+)/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, '', location.pathname + location.search);
  try {
    const made = await exchanged(decodeURIComponent(found[1]));
    if (!signedIn.value || signedIn.value.name === made.name || !(await stillKnown())) enter(made);
    else await refuseEntry(made);
  } catch (e) {
    if (!signedIn.value) codeTrouble.value = e; // who is signed in stays so, and misses nothing
  }
}

/** Whether the sign-in of this browser is good. */
function stillKnown() {
  return once('/api/v1/sign-ins', {}).then(
    () => true,
    (e) => !e.stranger,
  );
}

/** Does without a sign-in of somebody else. @param {import('./signin.js').SignIn} made */
async function refuseEntry(made) {
  codeTrouble.value = {
    message: `You opened a link that signs in ${made.name}, and somebody else is signed in here.`,
    hint: 'Sign out first if you want to change who you are.',
  };
  await once('/api/v1/sign-ins/' + made.id, { method: 'DELETE', headers: { Authorization: 'Bearer ' + made.secret } });
}

/** Signs out here, or wherever the same person is signed in. @param {boolean} [everywhere] */
export async function signOut(everywhere = false) {
  const { id = '', secret = '' } = signedIn.value || {};
  await ask('/api/v1/sign-ins' + (everywhere ? '' : '/' + id), { method: 'DELETE' });
  forget(secret);
  location.assign('/console/'); // nothing of what was shown stays in the page
}

// What another tab does holds for this one.
onOthers(() => {
  if (signedIn.value) entries.value++;
  locked.value = !signedIn.value;
});
