// A WebSocket as who is signed in. A browser cannot send a header with it, so a
// ticket that is good for this one is asked for first.
import { api } from './api.js';

export class Socket {
  /** @param {URL} at */
  constructor(at) {
    /** @type {() => void} */ this.onopen = () => {};
    /** @type {(e: MessageEvent) => void} */ this.onmessage = () => {};
    /** @type {() => void} */ this.onclose = () => {};
    /** @type {WebSocket|null} */ this.inner = null;
    this.closed = false;
    this.connect(at);
  }

  /** Whether something can be sent. */
  get isOpen() {
    return this.inner?.readyState === WebSocket.OPEN;
  }

  /** @param {URL} at */
  async connect(at) {
    let ticket;
    try {
      ({ ticket } = await api('/api/v1/tickets', { method: 'POST', body: { path: at.pathname } }));
    } catch {
      this.closed = true; // whoever opened it finds out why when it comes back
    }
    if (this.closed) {
      this.onclose();
      return;
    }
    at.searchParams.set('ticket', ticket);
    const inner = (this.inner = new WebSocket(at));
    inner.onopen = () => this.onopen();
    inner.onmessage = (e) => this.onmessage(e);
    inner.onclose = () => this.onclose();
  }

  /** @param {string} text */
  send(text) {
    this.inner?.send(text);
  }

  close() {
    this.closed = true;
    this.inner?.close();
  }
}
