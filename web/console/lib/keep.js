// What a page keeps in this browser: lists that are bounded in number and size.
import { signal } from './html.js';

const maxBytes = 512 << 10; // of one list

/**
 * A list that is kept under a name, the newest first.
 * @param {string} name @param {number} most
 */
export function kept(name, most) {
  const key = 'stoa.' + name;
  /** @type {any[]} */ let first = [];
  try {
    first = JSON.parse(localStorage.getItem(key) || '[]');
  } catch {
    /* it is as if it were empty */
  }
  const list = signal(Array.isArray(first) ? first.slice(0, most) : []);
  const write = (/** @type {any[]} */ next) => {
    let text = JSON.stringify(next);
    while (text.length > maxBytes && next.length > 1) {
      next = next.slice(0, Math.floor(next.length / 2));
      text = JSON.stringify(next);
    }
    list.value = next;
    try {
      localStorage.setItem(key, text);
    } catch {
      /* the browser keeps nothing: the list lasts as long as the page */
    }
  };
  addEventListener('storage', (e) => {
    if (e.key !== key) return;
    try {
      list.value = JSON.parse(e.newValue || '[]');
    } catch {
      /* not ours */
    }
  });
  return {
    list,
    /** Puts one in front. @param {any} item */
    add(item) {
      write([item, ...list.value].slice(0, most));
    },
    /** @param {(item: any) => boolean} gone */
    remove(gone) {
      write(list.value.filter((x) => !gone(x)));
    },
    clear() {
      write([]);
    },
  };
}
