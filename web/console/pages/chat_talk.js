// A conversation as a page holds it: its story, and the socket that tells it,
// which comes back where it was cut off. Frames are applied once, in their order.
import { exact } from '../lib/jsontext.js';
import { signal, batch } from '../lib/html.js';
import { known, locked } from '../lib/api.js';
import { Socket } from '../lib/socket.js';
import { Story } from './chat_story.js';
import { unsentOf, keepUnsent, forgetUnsent } from './chat_unsent.js';

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
    /** Messages without an answer yet. @type {import('@preact/signals').Signal<import('./chat_unsent.js').Unsent[]>} */
    this.unsent = signal(unsentOf(session));
    /** What the hub did not take, for whoever wrote it. */
    this.returned = signal('');
    /** @type {Map<string, {yes: (v: any) => void, no: (e: any) => void}>} */
    this.asked = new Map();
    this.wait = 250;
    /** @type {Socket|null} */
    this.socket = null;
    /** @type {any} */
    this.timer = null;
    this.closed = false;
    this.left = false;
    this.gone = new AbortController();
    // What is told to one person is not for the next: after a lock the conversation is told from its beginning.
    this.unwatch = locked.subscribe((is) => {
      if (!is) return;
      this.forget();
      this.socket?.close();
    });
    this.open();
  }

  open() {
    const at = new URL('/ws', location.href);
    at.protocol = at.protocol.replace('http', 'ws');
    if (this.session) at.searchParams.set('sessionId', this.session);
    // From the beginning the first time, so that there is one way to learn of everything.
    at.searchParams.set('after_seq', String(this.seq));
    at.searchParams.set('can', 'elicitation');
    if (this.offset) at.searchParams.set('offset', String(this.offset));
    const socket = new Socket(at);
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
      this.timer = setTimeout(() => this.comeBack(), this.wait);
      this.wait = Math.min(this.wait * 2, 10_000);
    };
  }

  /** Opens a socket again. A browser does not say why one was refused, so it is asked first whether the sign-in is good. */
  async comeBack() {
    await known(this.gone.signal).catch(() => {}); // a hub that is away is waited for
    if (!this.closed) this.open();
  }

  close() {
    this.closed = true;
    this.unwatch();
    this.gone.abort();
    clearTimeout(this.timer);
    this.socket?.close();
  }

  /** Closes it when the hub has all that was said. */
  leave() {
    this.left = true;
    if (!this.unsent.value.length) this.close();
  }

  /** Forgets what was told. */
  forget() {
    this.seq = 0;
    this.offset = 0;
    this.frames = [];
    this.items.value = [];
    this.approvals.value = [];
    this.questions.value = [];
    this.context.value = null;
    this.turn.value = '';
  }

  /** @param {any} frame @returns {boolean} whether it is on its way */
  put(frame) {
    if (!this.socket?.isOpen) return false;
    this.socket.send(JSON.stringify(frame));
    return true;
  }

  /** Says something; it is sent again under its key until the hub has it. @param {{text: string, agent?: string, fileId?: string}} payload */
  say(payload) {
    const one = { key: crypto.randomUUID(), session: this.session, at: Date.now(), put: false, payload };
    keepUnsent(one);
    this.unsent.value = [...this.unsent.value, one];
    this.trouble.value = null;
    if (this.state.value === 'open') this.deliver();
  }

  /** Sends what the hub has not confirmed, in the order in which it was said. @param {boolean} [all] also what is on its way */
  deliver(all = false) {
    this.unsent.value = this.unsent.value.map((one) => {
      if (one.put && !all) return one;
      const put = this.put({ type: 'message', payload: { ...one.payload, key: one.key } });
      const next = { ...one, session: this.session, put: one.put || put };
      keepUnsent(next);
      return next;
    });
  }

  /** @param {string} key @returns {import('./chat_unsent.js').Unsent|undefined} the message, which waits no more */
  settle(key) {
    const one = this.unsent.value.find((u) => u.key === key);
    if (!one) return undefined;
    forgetUnsent(key);
    this.unsent.value = this.unsent.value.filter((u) => u !== one);
    if (this.left) this.leave();
    return one;
  }

  /** Gives a message that was never sent back to who wrote it. @param {string} key */
  takeBack(key) {
    this.giveBack(this.settle(key));
  }

  /** @param {import('./chat_unsent.js').Unsent} [one] */
  giveBack(one) {
    if (one) this.returned.value = [this.returned.value, one.payload.text].filter(Boolean).join('\n');
  }

  /** @param {string} turn */
  abort(turn) {
    return this.request('abort', { type: 'abort', payload: turn ? { turn, queued: true } : { queued: true } });
  }

  /** @param {any} payload of approve */
  decide(payload) {
    return this.request('approve' + payload.id, { type: 'approve', payload });
  }

  /** Answers what a server asks. @param {string} id @param {{action: string, content?: any}} reply */
  reply(id, reply) {
    return this.request('reply' + id, { type: 'reply', payload: { id, ...reply } });
  }

  /** @param {string} name @param {any} frame @returns {Promise<any>} */
  request(name, frame) {
    if (!this.socket?.isOpen)
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
        if (p.input.key) this.settle(p.input.key);
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
      this.forget();
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
    this.questions.value = p.elicitations || [];
    this.deliver(true);
  }

  /** @param {any} p @param {any} error */
  answered(p, error) {
    if (p.frame === 'message' && p.key) {
      if (error?.kind === 'unreachable') {
        // The hub stops, and has not taken it: it is said again when it is back.
        this.unsent.value = this.unsent.value.map((u) => (u.key === p.key ? { ...u, put: false } : u));
        return;
      }
      const one = this.settle(p.key);
      if (error) this.giveBack(one);
    }
    const name = p.frame === 'approve' || p.frame === 'reply' ? p.frame + p.id : p.frame;
    const waits = this.asked.get(name);
    this.asked.delete(name);
    if (error && waits) waits.no(error);
    else if (error) this.trouble.value = error;
    else waits?.yes(p);
  }
}
