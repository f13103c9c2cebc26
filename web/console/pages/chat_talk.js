// A conversation as a page holds it: its story, and the socket that tells it,
// which comes back where it was cut off. Frames are applied once, in their order.
import { exact } from '../lib/jsontext.js';
import { signal, batch } from '../lib/html.js';
import { Story } from './chat_story.js';

/** How many frames the raw view keeps. */
const mostFrames = 2000;

export class Talk extends Story {
  /** @param {string} session @param {(name: string) => void} named */
  constructor(session, named) {
    super();
    this.session = session;
    this.named = named;
    /** What came, as it came; count says that there is more. @type {any[]} */
    this.frames = [];
    this.count = signal(0);
    this.state = signal('connecting');
    this.trouble = signal(/** @type {any} */ (null));
    /** Where to go on: all of event seq, and offset bytes of the next. */
    this.seq = 0;
    this.offset = 0;
    /** Messages without an answer yet, by key. @type {Map<string, any>} */
    this.unsent = new Map();
    /** What the hub did not take, for whoever wrote it. */
    this.returned = signal('');
    /** @type {Map<string, {yes: (v: any) => void, no: (e: any) => void}>} */
    this.asked = new Map();
    this.wait = 250;
    /** @type {WebSocket|null} */
    this.socket = null;
    /** @type {any} */
    this.timer = null;
    this.closed = false;
    this.open();
  }

  open() {
    const at = new URL('/ws', location.href);
    at.protocol = at.protocol.replace('http', 'ws');
    if (this.session) at.searchParams.set('sessionId', this.session);
    // From the beginning the first time, so that there is one way to learn of everything.
    at.searchParams.set('after_seq', String(this.seq));
    if (this.offset) at.searchParams.set('offset', String(this.offset));
    const socket = new WebSocket(at);
    this.socket = socket;
    socket.onmessage = ({ data }) => {
      if (this.socket === socket) batch(() => this.take(exact(data)));
    };
    socket.onclose = () => {
      if (this.socket !== socket || this.closed) return;
      for (const [, p] of this.asked)
        p.no({
          message: 'the connection was lost before the hub answered',
          hint: 'It is made again by itself; look whether it was done.',
        });
      this.asked.clear();
      if (this.state.value === 'refused') return;
      this.state.value = 'lost';
      this.timer = setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(this.wait * 2, 10_000);
    };
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  /** @param {any} frame */
  put(frame) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  /** Says something; it is sent again under its key until the hub has it. @param {{text: string, agent?: string, fileId?: string}} payload */
  say(payload) {
    const key = crypto.randomUUID();
    const frame = { type: 'message', payload: { ...payload, key } };
    this.unsent.set(key, frame);
    this.trouble.value = null;
    this.put(frame);
  }

  /** @param {string} turn */
  abort(turn) {
    return this.request('abort', { type: 'abort', payload: turn ? { turn, queued: true } : { queued: true } });
  }

  /** @param {any} payload of approve */
  decide(payload) {
    return this.request('approve' + payload.id, { type: 'approve', payload });
  }

  /** @param {string} name @param {any} frame @returns {Promise<any>} */
  request(name, frame) {
    if (this.socket?.readyState !== WebSocket.OPEN)
      return Promise.reject({ message: 'the hub is not connected', hint: 'Wait until it is.' });
    return new Promise((yes, no) => {
      this.asked.set(name, { yes, no });
      this.put(frame);
    });
  }

  /** @param {any} f */
  take(f) {
    const p = f.payload || {};
    const part = (f.type === 'text' || f.type === 'reasoning') && f.seq;
    if (f.seq) {
      // What came before a cut may come again; it counts once.
      if (f.seq <= this.seq || (part && f.seq === this.seq + 1 && f.offset < this.offset)) return;
    }
    this.keep(f);
    this.apply(f, p);
    if (!f.seq) return;
    if (part && !f.last) {
      this.seq = f.seq - 1;
      this.offset = f.end;
    } else {
      this.seq = f.seq;
      this.offset = 0;
    }
  }

  /** @param {any} f */
  keep(f) {
    this.frames.push(f);
    this.count.value++;
    if (this.frames.length > mostFrames * 1.1) this.frames.splice(0, this.frames.length - mostFrames);
  }

  /** @param {any} f @param {any} p */
  apply(f, p) {
    switch (f.type) {
      case 'connection':
        return this.connected(p);
      case 'ack':
        return this.answered(p, null);
      case 'error':
        return this.answered(p, p);
      case 'input':
        this.unsent.delete(p.input.key);
    }
    super.apply(f, p);
  }

  /** @param {any} p */
  connected(p) {
    if (p.state === 'error') {
      this.trouble.value = p;
      this.state.value = 'refused';
      return;
    }
    if (p.state === 'reconnecting') {
      this.state.value = 'lost';
      return;
    }
    this.wait = 250;
    if (this.seq && (p.state === 'connected' || p.history)) {
      // it was forgotten meanwhile, and another has begun
      this.seq = 0;
      this.offset = 0;
      this.items.value = [];
      this.context.value = null;
      this.turn.value = '';
      if (p.history) {
        this.socket?.close();
        return;
      } // and come back for its beginning
    }
    if (this.session !== p.sessionId) {
      this.session = p.sessionId;
      this.named(p.sessionId);
    }
    this.state.value = 'open';
    this.approvals.value = p.approvals || [];
    for (const frame of this.unsent.values()) this.put(frame);
  }

  /** @param {any} p @param {any} error */
  answered(p, error) {
    if (p.frame === 'message' && p.key) {
      if (error) this.returned.value = this.unsent.get(p.key)?.payload.text || '';
      this.unsent.delete(p.key);
    }
    const name = p.frame === 'approve' ? 'approve' + p.id : p.frame;
    const waits = this.asked.get(name);
    this.asked.delete(name);
    if (error && waits) waits.no(error);
    else if (error) this.trouble.value = error;
    else waits?.yes(p);
  }
}
