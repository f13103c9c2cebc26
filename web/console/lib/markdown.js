// A small part of Markdown, as nodes: headings, lists, quotes,
// code, bold, italic, and links that a person may follow. What is not of that
// part stays as it was written. No HTML is ever made of text, so that whatever
// a model or a tool says can only be read.
import { html } from './html.js';
import { Pre } from './ui.js';

const block = /^(#{1,4})\s+(.*)$|^\s*([-*+]|\d{1,3}[.)])\s+(.*)$|^>\s?(.*)$/;
const inline =
  /(`+)([^`](?:.*?[^`])?)\1(?!`)|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]{1,300})\]\((https?:\/\/[^\s()<>]{1,2000})\)/g;

/** @param {string} text @returns {any[]} */
function spans(text) {
  /** @type {any[]} */
  const out = [];
  let at = 0;
  for (const m of text.matchAll(inline)) {
    if (m.index > at) out.push(text.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[2] !== undefined) out.push(html`<code>${m[2]}</code>`);
    else if (m[3] !== undefined) out.push(html`<strong>${m[3]}</strong>`);
    else if (m[4] !== undefined) out.push(html`<em>${m[4]}</em>`);
    // The address is shown too: a link must not say that it leads elsewhere.
    else
      out.push(
        html`<a href=${m[6]} target="_blank" rel="noopener noreferrer nofollow">${m[5]}</a>
          ${m[5] === m[6] ? null : html`<span class="soft"> (${m[6]})</span>`}`,
      );
  }
  if (at < text.length) out.push(text.slice(at));
  return out;
}

/** Text as a few paragraphs. @param {{text: string}} props */
export function Markdown({ text }) {
  /** @type {any[]} */ const out = [];
  /** @type {string[]} */ let words = [];
  /** @type {{ordered: boolean, items: any[]}|null} */ let list = null;
  const flush = () => {
    if (words.length) out.push(html`<p>${spans(words.join('\n'))}</p>`);
    if (list) out.push(list.ordered ? html`<ol>${list.items}</ol>` : html`<ul>${list.items}</ul>`);
    words = [];
    list = null;
  };
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  for (let i = 0; i < lines.length; i++) {
    const fence = /^\s*(`{3,}|~{3,})/.exec(lines[i]);
    if (fence) {
      flush();
      const code = [];
      while (++i < lines.length && !lines[i].trimStart().startsWith(fence[1])) code.push(lines[i]);
      out.push(html`<${Pre}><code>${code.join('\n')}</code><//>`);
      continue;
    }
    const m = block.exec(lines[i]);
    if (!lines[i].trim()) flush();
    else if (m?.[1]) {
      flush();
      out.push(html`<p class="heading">${spans(m[2])}</p>`);
    } else if (m?.[3]) {
      const ordered = /\d/.test(m[3]);
      if (!list || list.ordered !== ordered) {
        flush();
        list = { ordered, items: [] };
      }
      list.items.push(html`<li>${spans(m[4])}</li>`);
    } else if (m && m[5] !== undefined) {
      flush();
      out.push(html`<blockquote>${spans(m[5])}</blockquote>`);
    } else {
      if (list) flush();
      words.push(lines[i]);
    }
  }
  flush();
  return html`<div class="markdown">${out}</div>`;
}
