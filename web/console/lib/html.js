// Preact and htm as one: markup in template strings, without a compiler. Text
// that is put into it is text, whatever it holds, and all of it can be seen.
import { h, render, Component, Fragment, options } from 'preact';
import htm from 'htm';
import { seen } from './text.js';

// Attributes that are read to people.
const spoken = ['title', 'aria-label', 'placeholder', 'alt'];

const before = options.vnode;
options.vnode = (/** @type {any} */ node) => {
  if (node.type === null && typeof node.props === 'string') node.props = seen(node.props);
  if (typeof node.type === 'string')
    for (const name of spoken) if (typeof node.props[name] === 'string') node.props[name] = seen(node.props[name]);
  before?.(node);
};

export const html = htm.bind(h);
export { h, render, Component, Fragment };
export { useState, useEffect, useRef, useMemo, useCallback } from 'preact/hooks';
export { signal, computed, effect, batch, useSignal, useComputed } from '@preact/signals';
