// What was said and done in a conversation, as its frames make it.
import { signal } from '../lib/html.js';

/** How many items are kept. */
const mostItems = 2000;

/**
 * @typedef {{kind: string, id: string, turn?: string, at?: string, text?: string, reasoning?: string, call?: string, tool?: string, args?: any, data?: any, state?: string,
 *   took?: number, bytes?: number, saved?: string, message?: string, edited?: boolean, progress?: any, key?: string, agent?: string, file?: string, open?: boolean,
 *   from?: number, queued?: boolean, end?: any, start?: any, mark?: number, isError?: boolean}} Item
 */

/** @type {Record<string, string>} */
const actions = { accept: 'It was answered', decline: 'It was declined', cancel: 'It was dismissed' };

/** What a server asked the person while its tool ran, and what became of it. @param {any} e @param {any} r */
const asked = (e, r) =>
  `${e.upstream} asked ${e.message ? `“${e.message}”` : 'something'}. ${actions[r.action] || r.action}${r.reason ? `: ${r.reason}` : ''}.`;

export class Story {
  constructor() {
    /** What was said and done, in its order. @type {import('@preact/signals').Signal<Item[]>} */
    this.items = signal([]);
    /** @type {import('@preact/signals').Signal<any[]>} */
    this.approvals = signal([]);
    /** What servers ask the person. @type {import('@preact/signals').Signal<any[]>} */
    this.questions = signal([]);
    this.turn = signal('');
    this.context = signal(/** @type {any} */ (null));
  }

  /** @param {any} f @param {any} p */
  apply(f, p) {
    // Said for simpler clients; the frame after it has all of it.
    if (p?.event && !f.seq) return;
    switch (f.type) {
      case 'text':
      case 'reasoning':
        return this.said(f, p);
      case 'input':
        return this.input(f, p.input);
      case 'input.dropped':
        return this.edit(
          (i) => i.kind === 'user' && i.id === p.input.id,
          (i) => ({ ...i, queued: false, state: 'taken back' }),
        );
      case 'turn.started':
        this.turn.value = f.turn;
        this.edit(
          (i) => i.kind === 'user' && i.id === p.start.input,
          (i) => ({ ...i, queued: false }),
        );
        return this.add({ kind: 'turn', id: f.turn, turn: f.turn, at: f.ts, start: p.start });
      case 'call':
        return this.add({
          kind: 'call',
          id: p.call.id,
          call: p.call.id,
          turn: f.turn,
          at: f.ts,
          tool: p.call.name,
          args: p.call.args,
          state: 'asked for',
        });
      case 'status':
        return this.status(f, p);
      case 'call.progress':
        return this.edit(
          (i) => i.call === f.call,
          (i) => ({ ...i, progress: p.progress }),
        );
      case 'approval.asked':
        return this.asks(p.approval);
      case 'approval.decided':
        return this.decided(f, p);
      case 'elicitation.asked':
        this.questions.value = [...this.questions.value.filter((q) => q.id !== p.elicitation.id), p.elicitation];
        return;
      case 'elicitation.answered':
        this.questions.value = this.questions.value.filter((q) => q.id !== p.elicitation.id);
        return this.add({
          kind: 'note',
          id: 'n' + f.seq,
          turn: f.turn,
          at: f.ts,
          state: 'question',
          text: asked(p.elicitation, p.reply),
        });
      case 'answer':
        return this.answer(f);
      case 'retry':
        return this.retry(f, p.retry);
      case 'note':
        this.unsay(f);
        return this.add({
          kind: 'note',
          id: 'n' + f.seq,
          turn: f.turn,
          at: f.ts,
          state: p.note.kind,
          text: p.note.text,
        });
      case 'context':
        this.context.value = p.context;
        return;
      case 'compacted':
        return this.add({
          kind: 'note',
          id: 'n' + f.seq,
          turn: f.turn,
          at: f.ts,
          state: 'compacted',
          text: `Old content was made shorter: ${p.compaction.before} tokens before, ${p.compaction.after} after.`,
        });
      case 'turn.ended':
        return this.ended(f, p.end);
    }
  }

  /** @param {Item} item */
  add(item) {
    this.items.value = [...this.items.value.slice(-(mostItems - 1)), item];
  }

  /** Changes the last item that is meant. @param {(i: Item) => boolean} which @param {(i: Item) => Item} how */
  edit(which, how) {
    const all = this.items.value,
      at = all.findLastIndex(which);
    if (at >= 0) this.items.value = all.with(at, how(all[at]));
    return at >= 0;
  }

  /** @param {any} f @param {any} p */
  said(f, p) {
    if (p.notice)
      return this.add({ kind: 'notice', id: 'notice' + (f.seq || Math.random()), turn: f.turn, text: p.content });
    const name = f.type === 'text' ? 'text' : 'reasoning';
    // mark is how long the words were before the part that is not whole yet.
    const grow = (/** @type {Item} */ i) => ({
      ...i,
      [name]: (i[name] || '') + p.content,
      from: f.last ? undefined : f.seq,
      mark: f.offset ? i.mark : (i[name] || '').length,
      state: f.last ? i.state : name,
    });
    const last = this.items.value.at(-1);
    if (last?.kind === 'assistant' && last.open && last.turn === f.turn) {
      this.items.value = this.items.value.with(-1, grow(last));
      return;
    }
    if (p.content) this.add(grow({ kind: 'assistant', id: 'w' + f.seq, turn: f.turn, open: true, text: '' }));
  }

  /** Takes back live words whose part was lost with a killed hub. @param {any} f */
  unsay(f) {
    this.edit(
      (i) => i.kind === 'assistant' && i.from === f.seq,
      (i) => {
        const name = i.state === 'reasoning' ? 'reasoning' : 'text';
        return { ...i, [name]: (i[name] || '').slice(0, i.mark || 0), from: undefined };
      },
    );
  }

  /** @param {any} f @param {any} input */
  input(f, input) {
    this.add({
      kind: 'user',
      id: input.id,
      at: f.ts,
      text: input.text || '',
      key: input.key,
      agent: input.agent,
      file: input.fileId,
      queued: this.turn.value !== '',
    });
  }

  /** @param {any} f @param {any} p */
  status(f, p) {
    this.unsay(f);
    if (!p.tool) {
      const failing = p.data?.degraded?.length ? ` Not reached: ${p.data.degraded.join(', ')}.` : '';
      return this.add({ kind: 'note', id: 'n' + Math.random(), at: f.ts, state: 'degraded', text: p.message + failing });
    }
    const change =
      p.state === 'processing'
        ? { state: 'running', edited: p.edited, ...(p.data ? { args: p.data.arguments } : {}) }
        : {
            state: p.status || 'ok',
            data: p.data,
            took: p.tookMs || 0,
            bytes: p.bytes,
            saved: p.saved,
            message: p.message,
            isError: p.isError,
            progress: undefined,
          };
    if (
      !this.edit(
        (i) => i.call === f.call,
        (i) => ({ ...i, ...change }),
      )
    )
      this.add({ kind: 'call', id: f.call, call: f.call, turn: f.turn, at: f.ts, tool: p.tool, ...change });
  }

  /** @param {any} approval */
  asks(approval) {
    // One of before the cut may be long decided; whoever connects is told what waits.
    if (!this.approvals.value.some((a) => a.id === approval.id))
      this.approvals.value = [...this.approvals.value, approval];
    this.edit(
      (i) => i.call === approval.call,
      (i) => ({ ...i, state: 'waiting' }),
    );
  }

  /** @param {any} f @param {any} p */
  decided(f, p) {
    this.approvals.value = this.approvals.value.filter((a) => a.id !== p.approval.id);
    const d = p.decision || {};
    const text =
      (d.approve ? (d.args ? 'Approved with other arguments' : 'Approved') : 'Denied') +
      (d.by ? ' by ' + d.by : '') +
      (d.remember && d.remember !== 'once' ? `, for the ${d.remember}` : '') +
      (d.reason ? ': ' + d.reason : '');
    this.edit(
      (i) => i.call === p.approval.call,
      (i) => ({ ...i, state: d.approve ? 'approved' : 'denied' }),
    );
    this.add({
      kind: 'note',
      id: 'd' + (f.seq || Math.random()),
      turn: f.turn,
      at: f.ts,
      state: d.approve ? 'approved' : 'denied',
      tool: p.approval.tool,
      text: `${p.approval.tool}: ${text}`,
    });
  }

  /** @param {any} f */
  answer(f) {
    this.unsay(f);
    this.edit(
      (i) => i.kind === 'assistant' && !!i.open && i.turn === f.turn,
      (i) => ({ ...i, open: false }),
    );
  }

  /** @param {any} f @param {any} r */
  retry(f, r) {
    this.unsay(f);
    if (r.discard)
      this.items.value = this.items.value.filter((i) => !(i.kind === 'assistant' && i.open && i.turn === f.turn));
    this.add({
      kind: 'note',
      id: 'r' + f.seq,
      turn: f.turn,
      at: f.ts,
      state: 'retry',
      text: `The model is asked again (attempt ${r.attempt}): ${r.reason}`,
    });
  }

  /** @param {any} f @param {any} end */
  ended(f, end) {
    this.answer(f);
    if (this.turn.value === f.turn) this.turn.value = '';
    this.approvals.value = this.approvals.value.filter((a) => a.turn !== f.turn);
    this.edit(
      (i) => i.kind === 'turn' && i.turn === f.turn,
      (i) => ({ ...i, end }),
    );
    if (end.reason !== 'done')
      this.add({
        kind: 'note',
        id: 'e' + f.seq,
        turn: f.turn,
        at: f.ts,
        state: end.reason,
        text: 'The turn ended: ' + end.reason + (end.error ? ' (' + end.error + ')' : ''),
      });
  }
}
