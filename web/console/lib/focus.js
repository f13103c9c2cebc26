// Where the keyboard is when what had it goes away. A browser then forgets it,
// and whoever has no mouse begins again at the top of the page.

/** What has the focus, or had it until it went. @type {any} */
let last = null;
/** What was around it, from the inside out. @type {HTMLElement[]} */
let around = [];
/** The row that opened what is beside the list. @type {HTMLElement|null} */
let opener = null;

/** Goes to what a row opened, with the keyboard; when that is closed, the row has it again. @param {HTMLElement} row */
export function follow(row) {
  opener = row;
  requestAnimationFrame(() => {
    const side = /** @type {HTMLElement|null} */ (document.querySelector('section.side'));
    if (side && document.activeElement === (row.getClientRects().length ? row : document.body)) take(side);
  });
}

/** @param {HTMLElement} place */
function take(place) {
  if (place.tabIndex < 0 && !place.hasAttribute('tabindex')) place.tabIndex = -1;
  place.focus({ preventScroll: true });
}

/** Whether it can be used still. @param {any} e */
const usable = (e) => e.isConnected && !e.disabled;

/** Where to go instead. @returns {HTMLElement|null} */
function instead() {
  const beside = around.some((e) => e.matches('section.side') && !e.isConnected);
  if (beside && opener?.isConnected) return opener;
  if (last.isConnected) {
    const other = last.parentElement.querySelector('button:not(:disabled)'); // as “Earlier” is, on the last page of a list
    if (other) return other;
  }
  const near = around.find((e) => e.isConnected);
  return near?.closest('main') ? near : document.querySelector('main');
}

/** Gives the focus to what is nearest whenever what had it is gone. @param {HTMLElement} root of all pages */
export function keepFocus(root) {
  addEventListener('focusin', (e) => {
    last = e.target;
    around = [];
    for (let p = last.parentElement; p && p !== root; p = p.parentElement) around.push(p);
  });
  // Who presses somewhere else gives it up.
  addEventListener('pointerdown', () => (last = null), { capture: true });
  new MutationObserver(() => {
    if (!last || usable(last)) return;
    requestAnimationFrame(() => {
      const free = !document.activeElement || document.activeElement === document.body || document.activeElement === last;
      if (!last || usable(last) || !free) return;
      const place = instead();
      last = null;
      if (place) take(place);
    });
  }).observe(root, { childList: true, subtree: true, attributes: true, attributeFilter: ['disabled'] });
}
