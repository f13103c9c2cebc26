// Two values as JSON, line by line: what went and what came.
import { html } from './html.js';
import { Pre } from './ui.js';

/** @param {any} value */
const lines = (value) => (value === undefined || value === null ? [] : JSON.stringify(value, null, 2).split('\n'));

/**
 * The lines of a and b in one list, each with what became of it. Beyond a bound
 * the middle is told as gone and come whole: looking is not worth more.
 * @param {string[]} a @param {string[]} b @returns {{mark: ' '|'-'|'+', text: string}[]}
 */
export function compare(a, b) {
  let head = 0,
    tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail),
    y = b.slice(head, b.length - tail);
  /** @type {{mark: ' '|'-'|'+', text: string}[]} */ const out = a.slice(0, head).map((text) => ({ mark: ' ', text }));
  if (x.length * y.length > 250_000) {
    for (const text of x) out.push({ mark: '-', text });
    for (const text of y) out.push({ mark: '+', text });
  } else {
    // The longest lines in common, counted from the end.
    const common = Array.from({ length: x.length + 1 }, () => new Uint32Array(y.length + 1));
    for (let i = x.length - 1; i >= 0; i--)
      for (let j = y.length - 1; j >= 0; j--)
        common[i][j] = x[i] === y[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    let i = 0,
      j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) {
        out.push({ mark: ' ', text: x[i] });
        i++;
        j++;
      } else if (i < x.length && (j === y.length || common[i + 1][j] >= common[i][j + 1]))
        out.push({ mark: '-', text: x[i++] });
      else out.push({ mark: '+', text: y[j++] });
    }
  }
  return out.concat(a.slice(a.length - tail).map((text) => ({ mark: ' ', text })));
}

const names = { ' ': 'same', '-': 'gone', '+': 'come' };

/** @param {{before: any, after: any}} props */
export function Diff({ before, after }) {
  return html`<${Lines} before=${lines(before)} after=${lines(after)} />`;
}

/** A difference that the hub has made, line by line. @param {{text: string}} props */
export function Patch({ text }) {
  return html`<${Pre} class="diff" data-testid="patch">${text
    .replace(/\n$/, '')
    .split('\n')
    .map((l) => html`<span class=${l.startsWith('- ') ? 'gone' : l.startsWith('+ ') ? 'come' : 'same'}>${l}${'\n'}</span>`)}<//>`;
}

/** @param {{before: string[], after: string[]}} props */
export function Lines({ before, after }) {
  return html`<${Pre} class="diff">${compare(before, after).map((l) => html`<span class=${names[l.mark]}>
    ${l.mark} ${l.text}${'\n'}</span>`)}<//>`;
}
