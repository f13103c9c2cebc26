// What happens in the hub, as it happens: one socket for the whole page. It is
// opened anew when it breaks, and goes on after the last event that came.
//
// Single calls may be a thousand a second, so that they are asked for only
// while somebody on the page wants them.
import { signal } from './html.js';
import { api, known, locked } from './api.js';
import { Socket } from './socket.js';

/** How the socket is: connecting, open, lost, or denied to who is there. */
export const connection = signal('connecting');

/** How many events the hub could not keep for this page. */
export const missed = signal(0);

/** How often another hub has come, whose numbers begin anew. */
export const restarts = signal(0);

/** Every family of events but that of single calls. */
const quiet = 'upstream.*,session.*,task.*,run.*,step.*,turn.*,policy.*,error,health';

/** Who listens, and whether to single calls too. @type {Map<(e: any) => void, boolean>} */
const listeners = new Map();
/** @type {Socket|null} */
let socket = null;
/** The one before, until the new one brings what is wanted. @type {Socket|null} */
let replaced = null;
let edge = Infinity; // the last event that the one before is to bring
let calls = false; // whether the socket brings them
let last = 0;
let hub = ''; // whose number that is
let wait = 250;
let away = false; // the page was left
const look = 3000; // milliseconds between two questions whether the sign-in is good, where no socket's end would tell

/**
 * Calls fn with each event from now on; returns what ends that.
 * @param {(e: any) => void} fn @param {boolean} [single] whether events of single calls are wanted
 */
export function listen(fn, single = true) {
  listeners.set(fn, single);
  choose();
  return () => {
    listeners.delete(fn);
    setTimeout(choose, 1000); // a page that comes next may want the same
  };
}

/** Opens a socket that brings what is wanted, if the one that is there does not. */
function choose() {
  const want = [...listeners.values()].includes(true);
  if (away || locked.value || connection.value === 'denied' || !listeners.size || (socket && want === calls)) return;
  calls = want;
  if (replaced)
    socket?.close(); // it was to take the place of that one, and does not
  else replaced = socket;
  edge = Infinity;
  open(0);
}

/** @param {number} after the event to go on after; 0 means from now on */
function open(after) {
  const at = new URL('/api/v1/events/ws', location.href);
  at.protocol = at.protocol.replace('http', 'ws');
  at.searchParams.set('batch', 'true'); // a frame for each would cost more than what is in it
  if (after) {
    at.searchParams.set('after', String(after));
    at.searchParams.set('hub', hub);
  }
  if (!calls) at.searchParams.set('types', quiet);
  const one = (socket = new Socket(at));
  one.onopen = () => {
    connection.value = 'open';
    wait = 250;
  };
  one.onmessage = ({ data }) => {
    const e = JSON.parse(data);
    for (const each of e.type === 'batch' ? e.events : [e]) take(each, one === socket);
  };
  one.onclose = () => {
    if (one !== socket) return; // another has taken its place
    connection.value = 'lost';
    setTimeout(() => comeBack(one), wait);
    wait = Math.min(wait * 2, 10_000);
  };
}

/**
 * Takes the place of a socket that broke. A browser does not say why a socket was refused: the same address without one
 * does, and locks the page if the sign-in is the reason.
 * @param {Socket} one
 */
async function comeBack(one) {
  if (one !== socket) return;
  try {
    await api('/api/v1/events?limit=1&wait=0s');
  } catch (e) {
    if (one !== socket) return;
    if (/** @type {any} */ (e).status === 403) {
      socket = null;
      connection.value = 'denied';
      watchSignIn();
      return;
    }
    // It is tried all the same: the socket may work where the question does not.
  }
  if (one === socket) open(last);
}

/** Looks every so often whether the sign-in is good, for as long as there is no socket. */
async function watchSignIn() {
  while (connection.value === 'denied') {
    await new Promise((r) => setTimeout(r, look));
    if (connection.value === 'denied' && !document.hidden) await known().catch(() => {}); // pages say that a hub is away
  }
}

// Nothing is heard while it is not known who is there.
locked.subscribe((is) => {
  if (is) {
    connection.value = 'lost';
    for (const one of [socket, replaced]) one?.close();
    socket = replaced = null;
  } else if (!socket && !away && listeners.size) {
    calls = [...listeners.values()].includes(true);
    edge = Infinity;
    wait = 250;
    open(last);
  }
});

/** Takes in a frame. @param {any} e @param {boolean} current whether it came by the socket that is to stay */
function take(e, current) {
  if (e.type === 'hello') {
    if (!current) return;
    if (hub && e.hub !== hub) {
      last = 0;
      restarts.value++;
    }
    hub = e.hub;
    edge = e.next;
    const old = replaced;
    replaced = null;
    setTimeout(() => old?.close(), 500); // what is on its way may still come
  } else if (e.seq) {
    if (current ? e.seq <= last : e.seq > edge) return; // the other socket has it
    last = Math.max(last, e.seq);
    for (const fn of listeners.keys()) fn(e);
  } else if (current) {
    if (e.type === 'gap') missed.value += e.lost || 0;
    last = Math.max(last, e.next || 0);
  }
}

// A browser may keep a page that was left, with its sockets: it is no viewer.
addEventListener('pagehide', () => {
  away = true;
  for (const one of [socket, replaced]) one?.close();
  socket = replaced = null;
});
addEventListener('pageshow', () => {
  if (!away) return;
  away = false;
  choose();
});
