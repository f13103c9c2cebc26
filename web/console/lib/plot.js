// Plots over time, in the colours of the page. Beside each are its figures, for
// those who cannot see it or want to know them.
import uPlot from 'uplot';
import { html, useEffect, useRef, useState } from './html.js';

const height = 180;

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * The points that no line reaches: those with nothing on either side. All others need no dot.
 * @param {any} u @param {number} series
 */
export function alone(u, series) {
  const values = u.data[series];
  const at = [];
  for (let i = 0; i < values.length; i++)
    if (values[i] != null && values[i - 1] == null && values[i + 1] == null) at.push(i);
  return at;
}

/** @param {Line} l */
function drawn(l) {
  if (l.bars)
    return {
      label: l.label,
      stroke: colour(l.colour),
      fill: colour(l.colour),
      width: 0,
      paths: uPlot.paths.bars?.({ size: [0.8, 12, 2] }),
      points: { show: false },
    };
  return {
    label: l.label,
    stroke: colour(l.colour),
    width: 1.5,
    points: { show: true, size: 4, fill: colour(l.colour), filter: alone },
  };
}

/**
 * One line of a plot: its colour is the name of a variable of style.css. Bars stand for themselves, and hide no line that is drawn after them.
 * @typedef {{label: string, colour: string, bars?: boolean}} Line
 */

/**
 * Lines over time. data is [seconds, values of the first line, …].
 * @param {{label: string, data: any[], lines: Line[], unit?: string, testid?: string}} props
 */
export function Plot({ label, data, lines, unit = '', testid }) {
  const box = useRef(/** @type {HTMLDivElement|null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const at = /** @type {HTMLDivElement} */ (box.current);
    const width = () => Math.max(200, at.clientWidth);
    const make = () => {
      plot.current?.destroy();
      const axis = {
        stroke: colour('--soft'),
        grid: { stroke: colour('--line'), width: 1 },
        ticks: { stroke: colour('--line') },
      };
      plot.current = new uPlot(
        {
          width: width(),
          height,
          legend: { show: false },
          cursor: { show: false },
          scales: { y: { range: (_u, _min, max) => [0, Math.max(1, max * 1.1)] } },
          axes: [axis, { ...axis, size: 60, values: (_u, v) => v.map((n) => n + unit) }],
          series: [{}, ...lines.map(drawn)],
        },
        latest.current,
        at,
      );
    };
    make();
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    const sized = new ResizeObserver(() => plot.current.setSize({ width: width(), height }));
    scheme.addEventListener('change', make);
    sized.observe(at);
    return () => {
      scheme.removeEventListener('change', make);
      sized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);
  return html`<figure class="plot" data-testid=${testid}><figcaption>
    ${label} ${lines.map((l) => html`<span class=${'key ' + l.colour.slice(2)}>${l.label}</span> `)}</figcaption>
    <div ref=${box} role="img" aria-label=${label}></div>
    <${Figures} label=${label} data=${data} lines=${lines} /></figure>`;
}

/** The points of a plot at which there was something, the newest first. @param {{label: string, data: any[], lines: Line[]}} props */
function Figures({ label, data, lines }) {
  const [open, setOpen] = useState(false);
  const rows = [];
  if (open) {
    for (let i = data[0].length - 1; i >= 0 && rows.length < 24; i--)
      if (lines.some((_, l) => data[l + 1][i])) rows.push(i);
  }
  return html`<details open=${open} onToggle=${(/** @type {any} */ e) => setOpen(e.currentTarget.open)}><summary>Figures</summary>
    ${
      !open
        ? null
        : !rows.length
          ? html`<p class="empty">Nothing yet.</p>`
          : html`<table aria-label=${label}><thead><tr><th scope="col">From</th>
            ${lines.map((l) => html`<th scope="col" class="num">${l.label}</th>`)}</tr></thead>
      <tbody>${rows.map(
        (
          i,
        ) => html`<tr key=${data[0][i]} data-at=${data[0][i]}><td>${new Date(data[0][i] * 1000).toLocaleTimeString()}</td>
        ${lines.map((_, l) => html`<td class="num">${data[l + 1][i] == null ? '—' : +data[l + 1][i].toFixed(3)}</td>`)}</tr>`,
      )}</tbody></table>`
    }</details>`;
}
