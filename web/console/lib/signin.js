// Who is signed in here. The hub has given this browser a secret for it, which
// is kept where only pages of this very address can read it: it is no token, ends
// after half a day, and can be ended before.
import { signal } from './html.js';

/** @typedef {{secret: string, id: string, name: string, owner: boolean, expires: string}} SignIn */

const key = 'stoa.sign-in';

/** The sign-in of this browser, if there is one. */
export const signedIn = signal(read());

/** Calls that are made when another tab has signed in or out. @type {Set<() => void>} */
const others = new Set();

/** @returns {SignIn|null} */
function read() {
  try {
    const one = JSON.parse(localStorage.getItem(key) || 'null');
    return one?.secret ? one : null;
  } catch {
    return null; // what is there is not ours
  }
}

/** Keeps a sign-in for this tab and the others. @param {SignIn} one */
export function keep({ secret, id, name, owner, expires }) {
  signedIn.value = { secret, id, name, owner, expires };
  try {
    localStorage.setItem(key, JSON.stringify(signedIn.value));
  } catch {
    /* a browser that keeps nothing has it until the page is left */
  }
}

/**
 * Forgets a sign-in that is good no more. Another tab may have got a new one meanwhile: then that is taken up.
 * @param {string} secret @returns {boolean} whether there is a new one
 */
export function forget(secret) {
  const now = read();
  if (now && now.secret !== secret) {
    signedIn.value = now;
    return true;
  }
  if (signedIn.value?.secret === secret) signedIn.value = null;
  if (now) localStorage.removeItem(key);
  return false;
}

/** The header by which the hub knows who asks. @returns {Record<string, string>} */
export function credential() {
  return signedIn.value ? { Authorization: 'Bearer ' + signedIn.value.secret } : {};
}

/** Calls fn when another tab has signed in or out. @param {() => void} fn */
export function onOthers(fn) {
  others.add(fn);
}

addEventListener('storage', (e) => {
  if (e.key !== key && e.key !== null) return;
  signedIn.value = read();
  for (const fn of others) fn();
});
