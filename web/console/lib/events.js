// What happens in the hub, as it happens: one socket for the whole page. It is
// opened anew when it breaks, and goes on after the last event that came.
import { signal } from './html.js';

/** How the socket is: connecting, open or lost. */
export const connection = signal('connecting');

/** How many events the hub could not keep for this page. */
export const missed = signal(0);

/** @type {Set<(e: any) => void>} */
const listeners = new Set();
let last = 0;
let wait = 250;
let started = false;

/** Calls fn with each event from now on; returns what ends that. @param {(e: any) => void} fn */
export function listen(fn) {
  listeners.add(fn);
  if (!started) { started = true; open(); }
  return () => { listeners.delete(fn); };
}

function open() {
  const at = new URL('/api/v1/events/ws', location.href);
  at.protocol = at.protocol.replace('http', 'ws');
  if (last) at.searchParams.set('after', String(last));
  const socket = new WebSocket(at);
  socket.onopen = () => { connection.value = 'open'; wait = 250; };
  socket.onmessage = ({ data }) => {
    const e = JSON.parse(data);
    if (e.type === 'gap') { missed.value += e.lost || 0; last = e.next || last; return; }
    if (e.type === 'hello' && e.restarted) last = 0;
    if (!e.seq) { last = e.next || last; return; }
    last = e.seq;
    for (const fn of listeners) fn(e);
  };
  socket.onclose = () => {
    connection.value = 'lost';
    setTimeout(open, wait);
    wait = Math.min(wait * 2, 10_000);
  };
}
