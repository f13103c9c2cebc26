// Parts for pages of lists and of things that can be removed.
import { html, useState, useEffect, useRef } from './html.js';
import { narrow } from './router.js';
import { Button } from './ui.js';

/** Goes through a list that the hub gives page by page. @param {{offset: number, size: number, total: number}} props */
export function Pager({ offset, size, total }) {
  if (total <= size && offset === 0) return null;
  return html`<div class="pager" role="navigation" aria-label="Pages of the list">
    <button type="button" data-testid="earlier" disabled=${offset === 0}
    onClick=${() => narrow({ offset: offset - size > 0 ? String(offset - size) : undefined })}>Earlier</button>
    <span data-testid="part">${Math.min(offset + 1, total)}–${Math.min(offset + size, total)} of ${total}</span>
    <button type="button" data-testid="later" disabled=${offset + size >= total}
    onClick=${() => narrow({ offset: String(offset + size) })}>Further</button></div>`;
}

/** A button for what cannot be undone: it asks once more. @param {{what: string, label: string, onClick: () => any, testid?: string}} props */
export function Sure({ what, label, onClick, testid }) {
  const [asked, setAsked] = useState(false);
  const yes = useRef(/** @type {HTMLElement|null} */ (null)),
    first = useRef(/** @type {HTMLElement|null} */ (null)),
    was = useRef(false);
  useEffect(() => {
    if (asked) yes.current?.querySelector('button')?.focus();
    else if (was.current) first.current?.focus();
    was.current = asked;
  }, [asked]);
  if (!asked)
    return html`<button type="button" class="danger" ref=${first} aria-label=${what} data-testid=${testid}
      onClick=${() => setAsked(true)}>${label}</button>`;
  return html`<span class="sure" ref=${yes} onKeyDown=${(/** @type {KeyboardEvent} */ e) => {
    if (e.key === 'Escape') setAsked(false);
  }}><${Button} danger aria-label=${`Yes, ${label.toLowerCase()}: ${what}, for good`} data-testid=${testid && testid + '-yes'}
    onClick=${async () => {
    await onClick();
    setAsked(false);
  }}>Yes, ${label.toLowerCase()}<//> <button type="button" onClick=${() => setAsked(false)}>No</button></span>`;
}
