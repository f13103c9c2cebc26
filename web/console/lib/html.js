// Preact and htm as one: markup in template strings, without a compiler. Text
// that is put into it is text, whatever it holds.
import { h, render, Fragment } from 'preact';
import htm from 'htm';

export const html = htm.bind(h);
export { h, render, Fragment };
export { useState, useEffect, useRef, useMemo, useCallback } from 'preact/hooks';
export { signal, computed, effect, batch, useSignal, useComputed } from '@preact/signals';
