// How answers came about: each turn with its calls in time, and the frames of
// the socket as they came.
import { html, useState } from '../lib/html.js';
import { Badge, Empty, Copy, Search, Button, took, Time } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { save } from '../lib/save.js';
import { Card, kindOf } from './chat_card.js';

/** @param {{talk: import('./chat_talk.js').Talk}} props */
export function Trace({ talk }) {
  const items = talk.items.value;
  const turns = items.filter((i) => i.kind === 'turn');
  if (!turns.length) return html`<${Empty}>No turn has begun yet.<//>`;
  return html`<div data-testid="trace">
    ${turns.map((t) => html`<${Turn} key=${t.id} turn=${t} items=${items.filter((i) => i.turn === t.turn && i.kind !== 'turn')}
    input=${items.find((i) => i.kind === 'user' && i.id === t.start.input)} />`)}</div>`;
}

/** @param {{turn: any, items: any[], input: any}} props */
function Turn({ turn, items, input }) {
  const end = turn.end,
    begun = Date.parse(turn.at);
  const calls = items.filter((i) => i.kind === 'call');
  const whole = Math.max(1, end?.tookMs || 0, ...calls.map((c) => Date.parse(c.at) - begun + (c.took || 0)));
  const usage = end?.usage || {};
  return html`<section class="turn" data-testid="turn" aria-label=${'Turn ' + turn.id}><h2>
    ${turn.id} <${Badge} kind=${end ? (end.reason === 'done' ? 'good' : kindOf(end.reason)) : 'busy'}>
    ${end ? end.reason : 'running'}<//></h2>
    <p class="soft">${turn.start.model}${turn.start.agent ? ' as ' + turn.start.agent : ''} · <${Time} at=${turn.at} />${
      end
        ? ` · ${took((end.tookMs || 0) * 1000)} · ${Object.entries(usage)
            .map(([k, v]) => `${k} ${v}`)
            .join(', ')}${end.cost ? ` · ${end.cost} $` : ''}`
        : ''
    }</p>
    <p class="plain">${input?.text || ''}</p>
    ${items.map((i) => {
      if (i.kind !== 'call')
        return html`<p class="aside" key=${i.kind + i.id}><${Badge} kind=${kindOf(i.state || '')}>
          ${i.kind === 'assistant' ? 'text' : i.state || i.kind}
          <//> ${(i.text || '').slice(0, 300)}${(i.text || '').length > 300 ? '…' : ''}</p>`;
      const x = (100 * (Date.parse(i.at) - begun)) / whole,
        w = Math.max(0.6, (100 * (i.took || 0)) / whole);
      return html`<div class="traced" key=${i.id}><svg class="span" viewBox="0 0 100 6" preserveAspectRatio="none" role="img"
        aria-label=${`${i.tool}: after ${Math.round(Date.parse(i.at) - begun)} ms, ${i.took ?? '…'} ms long`}>
        <rect class="rail" x="0" y="2.5" width="100" height="1" /><rect class=${'fill ' + kindOf(i.state)} x=${Math.min(x, 99)}
        y="0" width=${Math.min(w, 100 - Math.min(x, 99))} height="6" /></svg><${Card} item=${i} /></div>`;
    })}
    ${end ? html`<details><summary>How it ended</summary><${Json} value=${end} /></details>` : null}</section>`;
}

/** @param {{talk: import('./chat_talk.js').Talk}} props */
export function Raw({ talk }) {
  const [find, setFind] = useState('');
  talk.count.value; // it is drawn again when there are more
  const all = talk.frames
    .map((f) => JSON.stringify(f))
    .filter((t) => !find || t.toLowerCase().includes(find.toLowerCase()));
  const text = all.join('\n');
  return html`<div class="bar"><${Search} label="Find in the frames" value=${find} onChange=${setFind} data-testid="raw-find" />
    <span class="soft">${all.length} frames, newest last</span><${Copy} text=${text} />
    <${Button} data-testid="raw-save" onClick=${() => save(`${talk.session}.ndjson`, text + '\n')}>Export<//></div>
    <ol class="raw" data-testid="raw">${all.slice(-500).map((t, i) => html`<li key=${all.length - Math.min(500, all.length) + i}>
    <code>${t.length > 4000 ? t.slice(0, 4000) + '…' : t}</code></li>`)}</ol>`;
}
