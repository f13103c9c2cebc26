// Plots over time, in the colours of the page.
import uPlot from 'uplot';
import { html, useEffect, useRef } from './html.js';

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * Lines over time. data is [seconds, values of the first line, …]; lines are {label, colour} with the name of a variable of style.css.
 * @param {{label: string, data: any[], lines: {label: string, colour: string}[], unit?: string, dots?: boolean}} props
 */
export function Plot({ label, data, lines, unit = '', dots = false }) {
  const box = useRef(/** @type {HTMLDivElement|null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const at = /** @type {HTMLDivElement} */ (box.current);
    const make = () => {
      plot.current?.destroy();
      const axis = { stroke: colour('--soft'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line') } };
      plot.current = new uPlot({ width: Math.max(200, at.clientWidth), height: 180, legend: { show: false }, cursor: { show: false },
        scales: { y: { range: (_u, _min, max) => [0, Math.max(1, max * 1.1)] } }, axes: [axis, { ...axis, size: 60, values: (_u, v) => v.map((n) => n + unit) }],
        series: [{}, ...lines.map((l) => ({ label: l.label, stroke: colour(l.colour), width: 2, points: { show: dots, size: 4 } }))] }, latest.current, at);
    };
    make();
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    const sized = new ResizeObserver(() => plot.current.setSize({ width: Math.max(200, at.clientWidth), height: 180 }));
    scheme.addEventListener('change', make);
    sized.observe(at);
    return () => { scheme.removeEventListener('change', make); sized.disconnect(); plot.current?.destroy(); plot.current = null; };
  }, []);
  useEffect(() => { plot.current?.setData(data); }, [data]);
  return html`<figure class="plot"><figcaption>${label} ${lines.map((l) => html`<span class=${'key ' + l.colour.slice(2)}>${l.label}</span> `)}</figcaption><div ref=${box} role="img" aria-label=${label}></div></figure>`;
}
