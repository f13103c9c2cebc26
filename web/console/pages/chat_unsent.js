// Messages that the hub has not taken yet. They are kept for as long as the tab
// is open, so that neither leaving the page nor loading it anew loses one.

const prefix = 'stoa.unsent.';

/**
 * put says that it was sent and no answer came: the hub may have it.
 * @typedef {{key: string, session: string, at: number, put: boolean, payload: {text: string, agent?: string, fileId?: string}}} Unsent
 */

/** Those of a conversation, in the order in which they were written. @param {string} session @returns {Unsent[]} */
export function unsentOf(session) {
  const all = [];
  try {
    for (const name of Object.keys(sessionStorage)) {
      if (!name.startsWith(prefix)) continue;
      const one = JSON.parse(sessionStorage.getItem(name) || 'null');
      if (one?.session === session && one.payload) all.push(one);
    }
  } catch {
    /* what cannot be read is not ours */
  }
  return all.sort((a, b) => a.at - b.at);
}

/** @param {Unsent} one */
export function keepUnsent(one) {
  try {
    sessionStorage.setItem(prefix + one.key, JSON.stringify(one));
  } catch {
    /* the browser keeps nothing: it lasts as long as the page */
  }
}

/** @param {string} key */
export function forgetUnsent(key) {
  try {
    sessionStorage.removeItem(prefix + key);
  } catch {
    /* as above */
  }
}
