// The records of the page Live: the last of them, those that are wanted, and
// what there is to choose from. All three are carried on with what comes and
// never made anew while nobody asks for something else, so that a thousand
// records a second cost little.

export const levels = ['debug', 'info', 'warning', 'error'];

/** How important a record is. @param {any} e */
export function levelOf(e) {
  return e.level || (e.kind && e.type === 'call.done' ? 'error' : 'info');
}

/** @typedef {{n: number, record: any, text: string|null}} Entry a record, its place in this page, and what is searched */

const narrowing = ['upstream', 'tool', 'session', 'level', 'type', 'trace', 'search'];

/** What of an address narrows the list, as one text. @param {Record<string, string>} q */
export function keyOf(q) {
  return JSON.stringify(narrowing.map((k) => q[k] || ''));
}

/** Makes of what is asked for a function that tells whether a record is wanted. @param {Record<string, string>} q */
export function wants(q) {
  const least = q.level ? levels.indexOf(q.level) : -1;
  const needle = (q.search || '').toLowerCase();
  return (/** @type {Entry} */ entry) => {
    const e = entry.record;
    if ((q.upstream && e.upstream !== q.upstream) || (q.session && e.session !== q.session)) return false;
    if ((q.type && !e.type.startsWith(q.type)) || (q.tool && e.tool !== q.tool)) return false;
    if (q.trace && e.trace !== q.trace) return false;
    if (least > 0 && levels.indexOf(levelOf(e)) < least) return false;
    if (!needle) return true;
    entry.text ??= JSON.stringify(e).toLowerCase();
    return entry.text.includes(needle);
  };
}

/** What can be chosen of a record. @type {Record<string, (e: any) => string>} */
const facets = {
  upstream: (e) => e.upstream,
  tool: (e) => e.tool,
  session: (e) => e.session,
  type: (e) => e.type.split('.')[0],
};

export class Store {
  /** @param {number} most records that are kept */
  constructor(most) {
    this.most = most;
    this.n = 0; // of the newest
    this.last = 0; // the number that the hub gave to it
    this.changed = 0; // how often what can be chosen has changed
    /** @type {Entry[]} */ this.all = [];
    /** @type {Entry[]} */ this.fits = [];
    this.key = keyOf({});
    this.wanted = wants({});
    /** @type {Record<string, Map<string, number>>} */ this.counts = {};
    for (const k of Object.keys(facets)) this.counts[k] = new Map();
  }

  /** Says that the hub is another, whose numbers begin anew. */
  anew() {
    this.last = 0;
  }

  /** Takes in what came, oldest first; what is known already is passed over. @param {any[]} records */
  add(records) {
    for (const record of records) {
      if (record.seq <= this.last) continue;
      this.last = record.seq;
      const entry = { n: ++this.n, record, text: null };
      this.all.push(entry);
      this.count(record, 1);
      if (this.wanted(entry)) this.fits.push(entry);
    }
    const old = this.all.splice(0, Math.max(0, this.all.length - this.most));
    for (const entry of old) this.count(entry.record, -1);
    if (!old.length) return;
    const first = this.all[0].n;
    let gone = 0;
    while (gone < this.fits.length && this.fits[gone].n < first) gone++;
    this.fits.splice(0, gone);
  }

  /** @param {any} record @param {number} by */
  count(record, by) {
    for (const k in facets) {
      const value = facets[k](record);
      if (!value) continue;
      const of = this.counts[k];
      const n = (of.get(value) || 0) + by;
      if (n > 0) of.set(value, n);
      else of.delete(value);
      if (n === 0 || (by > 0 && n === 1)) this.changed++;
    }
  }

  /** Says which records are wanted. @param {Record<string, string>} query */
  want(query) {
    const key = keyOf(query);
    if (key === this.key) return;
    this.key = key;
    this.wanted = wants(query);
    this.fits = this.all.filter(this.wanted);
  }

  /** What there is to choose from, at most 200. @param {string} k */
  choices(k) {
    return [...this.counts[k].keys()].sort().slice(0, 200);
  }
}
