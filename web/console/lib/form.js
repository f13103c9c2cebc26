// A form made from a JSON Schema. It shows a value and tells of each change;
// where a schema says nothing, JSON is written by hand. Any field can hold a
// reference such as @name instead, if references are offered.
import { html, useState } from './html.js';
import { Unparsed, resolve, variants, closest, kind, isSchema, element, blank, check, isReference } from './schema.js';

/**
 * What all fields of a form share: the whole schema, what is wrong, and the names of values to refer to.
 * @typedef {{root: any, problems: Map<string, import('./schema.js').Problem>, references?: {name: string, type?: string, summary?: string}[]}} Shared
 * @typedef {{schema: any, value: any, path: string, label: string, required: boolean, shared: Shared, onChange: (v: any) => void}} FieldProps
 */

/** @param {{schema: any, value: any, onChange: (v: any) => void, problems: import('./schema.js').Problem[], references?: any[]}} props */
export function Form({ schema, value, onChange, problems, references }) {
  /** @type {Shared} */
  const shared = { root: schema, problems: new Map(problems.map((p) => [p.path, p])), references };
  const top = resolve(schema, schema);
  const whole = shared.problems.get('');
  return html`<div class="form">
    ${whole && kind(top) === 'object' ? html`<p class="problem" data-testid="problem">These arguments: ${whole.text}
    </p>` : null}${
    kind(top) === 'object'
      ? html`<${Members} schema=${top} value=${value} path="" shared=${shared} onChange=${onChange} />`
      : html`<${Field} schema=${top} value=${value} path="" label="Arguments" required=${true} shared=${shared}
        onChange=${onChange} />`
  }</div>`;
}

/** The id of the field at a path, for its label and for tests. @param {string} path */
const idOf = (path) => 'field' + path;

/** @param {FieldProps} props */
function Field(props) {
  const { path, label, required, shared, value, onChange } = props;
  const schema = resolve(props.schema, shared.root);
  const what = kind(schema);
  const problem = shared.problems.get(path) || (what === 'any' ? within(path, shared) : undefined);
  const group = ['object', 'array'].includes(what) && !isReference(value);
  const head = html`<span class="name">${schema.title && schema.title !== label ? html`${label} <span class="soft">${schema.title}
    </span>` : label}</span>${required ? html`<span class="must" title="required">*</span>` : null} <span class="soft">
    ${describe(schema, what)}</span>`;
  const tools = html`<${Picker} path=${path} shared=${shared} onPick=${(/** @type {string} */ name) => onChange('@' + name)} />`;
  const foot = html`${schema.description ? html`<p class="help" id=${idOf(path) + '-help'}>${schema.description}</p>` : null}
    ${problem ? html`<p class=${'problem' + (problem.missing ? ' missing' : '')} id=${idOf(path) + '-problem'}
    data-testid=${'problem' + path}>${problem.text}</p>` : null}`;
  if (group) {
    const set = value !== undefined;
    return html`<fieldset class="field" data-path=${path}><legend>${head}</legend>${foot}
      <div class="bar">${
        set
          ? required
            ? null
            : html`<button type="button" class="small" onClick=${() => onChange(undefined)}
              aria-label=${'Remove ' + label}>Remove</button>`
          : html`<button type="button" class="small" data-testid=${'add' + path}
            onClick=${() => onChange(blank(schema, shared.root) ?? (what === 'array' ? [] : {}))}
            aria-label=${'Add ' + label}>Add</button>`
      }${tools}</div>
      ${!set ? null : what === 'object' ? html`<${Members} schema=${schema} value=${value} path=${path} shared=${shared}
      onChange=${onChange} />` : html`<${Items} ...${props} schema=${schema} />`}</fieldset>`;
  }
  return html`<div class="field" data-path=${path}><label for=${idOf(path)}>${head}</label><div class="bar input">
    <${Input} ...${props} schema=${schema} what=${isReference(value) && what !== 'any' ? 'string' : what}
    invalid=${!!problem && !problem.missing} />${tools}</div>${foot}</div>`;
}

/** What is wrong somewhere in a value that is written as JSON. @param {string} path @param {Shared} shared */
function within(path, shared) {
  for (const [at, p] of shared.problems)
    if (at.startsWith(path + '/')) return { path, text: `${at.slice(path.length)} ${p.text}`, missing: false };
  return undefined;
}

/** What a field is to hold, in a few words. @param {any} s @param {string} what */
function describe(s, what) {
  const words = [what === 'any' || what === 'union' || what === 'const' || what === 'enum' ? '' : what, s.format];
  if (s.minimum !== undefined || s.maximum !== undefined) words.push(`${s.minimum ?? '…'} to ${s.maximum ?? '…'}`);
  if (s.pattern) words.push(`like ${s.pattern}`);
  if (s.default !== undefined && typeof s.default !== 'object') words.push(`default ${JSON.stringify(s.default)}`);
  if (s.deprecated) words.push('deprecated');
  return words.filter(Boolean).join(', ');
}

/** @param {FieldProps & {what: string, invalid: boolean}} props */
function Input(props) {
  const { schema, value, path, required, onChange, what, invalid } = props;
  const own = {
    id: idOf(path),
    'aria-invalid': invalid,
    'aria-describedby': `${idOf(path)}-problem ${idOf(path)}-help`,
  };
  switch (what) {
    case 'const':
      return html`<select ...${own} value=${value === undefined ? '' : '0'}
        onChange=${(/** @type {any} */ e) => onChange(e.target.value === '' ? undefined : schema.const)}>
      ${required ? null : html`<option value=""></option>`}<option value="0">${JSON.stringify(schema.const)}</option></select>`;
    case 'enum': {
      const at =
        value === undefined
          ? -1
          : schema.enum.findIndex((/** @type {any} */ e) => JSON.stringify(e) === JSON.stringify(value));
      return html`<select ...${own} value=${String(at)}
        onChange=${(/** @type {any} */ e) => onChange(e.target.value === '-1' ? undefined : schema.enum[Number(e.target.value)])}>
        <option value="-1"></option>${schema.enum.map((/** @type {any} */ e, /** @type {number} */ i) => html`<option
        value=${String(i)}>${typeof e === 'string' ? e : JSON.stringify(e)}</option>`)}</select>`;
    }
    case 'boolean':
      return html`<select ...${own} value=${value === undefined ? '' : String(value)}
        onChange=${(/** @type {any} */ e) => onChange(e.target.value === '' ? undefined : e.target.value === 'true')}>
      <option value=""></option><option value="true">true</option><option value="false">false</option></select>`;
    case 'number':
    case 'integer':
      return html`<${Numeral} own=${own} value=${value} onChange=${onChange} />`;
    case 'string':
      return html`<${Text} own=${own} schema=${schema} value=${value}
        onText=${(/** @type {string} */ v) => onChange(v === '' && !required ? undefined : v)} />`;
    case 'null':
      return html`<select ...${own} value=${value === null ? 'null' : ''}
        onChange=${(/** @type {any} */ e) => onChange(e.target.value ? null : undefined)}><option value=""></option>
        <option value="null">null</option></select>`;
    case 'union':
      return html`<${Union} ...${props} own=${own} />`;
  }
  return html`<${Free} own=${own} value=${value} onChange=${onChange} />`;
}

/** A number, as it is typed: 1. and 1.0 are on the way to 1.05. @param {{own: any, value: any, onChange: (v: any) => void}} props */
function Numeral({ own, value, onChange }) {
  const shown = value === undefined ? '' : String(value);
  const [typed, setTyped] = useState({ text: shown, of: value });
  return html`<input ...${own} inputmode="decimal" autocomplete="off" value=${typed.of === value ? typed.text : shown} onInput=${(
    /** @type {any} */ e,
  ) => {
    const v = numeric(e.target.value);
    setTyped({ text: e.target.value, of: v });
    onChange(v);
  }} />`;
}

/** A number if it is one, else the text itself, so that it can be said what is wrong. @param {string} text */
function numeric(text) {
  const v = text.trim();
  if (v === '') return undefined;
  return /^-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(v) ? Number(v) : text;
}

/** @param {{own: any, schema: any, value: any, onText: (v: string) => void}} props */
function Text({ own, schema, value, onText }) {
  const text = value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
  const input = (/** @type {any} */ e) => onText(e.target.value);
  if (schema.format || schema.maxLength <= 100)
    return html`<input ...${own} type=${schema.format === 'password' ? 'password' : 'text'} autocomplete="off" spellcheck=${false}
      value=${text} onInput=${input} />`;
  return html`<textarea ...${own} rows=${Math.min(12, text.split('\n').length)} spellcheck=${false} value=${text}
    onInput=${input}></textarea>`;
}

/** JSON by hand. @param {{own: any, value: any, onChange: (v: any) => void}} props */
function Free({ own, value, onChange }) {
  const shown = value === undefined ? '' : value instanceof Unparsed ? value.text : JSON.stringify(value, null, 1);
  const [typed, setTyped] = useState({ text: shown, of: value });
  const text = typed.of === value ? typed.text : shown; // what was typed, unless the value is another's
  return html`<textarea ...${own} class="mono" spellcheck=${false} placeholder="JSON"
    rows=${Math.min(12, Math.max(2, text.split('\n').length))} value=${text}
    onInput=${(/** @type {any} */ e) => {
      const now = e.target.value;
      /** @type {any} */ let v;
      try {
        v = now.trim() === '' ? undefined : JSON.parse(now);
      } catch {
        v = isReference(now.trim()) ? now.trim() : new Unparsed(now);
      }
      setTyped({ text: now, of: v });
      onChange(v);
    }}></textarea>`;
}

/** One of several forms. @param {FieldProps & {own: any}} props */
function Union({ schema, value, path, label, required, shared, onChange, own }) {
  const all = variants(schema, shared.root);
  const how = { root: shared.root, references: !!shared.references };
  const [chosen, setChosen] = useState(-1);
  const fits = value === undefined ? { at: required ? 0 : -1, problems: [] } : closest(all, value, how);
  // What was chosen counts until the value is one of another form: it may have been loaded since.
  const stays =
    chosen >= 0 &&
    chosen < all.length &&
    (value === undefined || fits.at < 0 || fits.problems.length > 0 || !check(all[chosen], value, how).length);
  const at = stays ? chosen : value === undefined ? fits.at : Math.max(0, fits.at);
  const name = (/** @type {any} */ v, /** @type {number} */ i) =>
    v.title ||
    (v.const !== undefined ? JSON.stringify(v.const) : '') ||
    tagged(v) ||
    [v.type].flat().filter(Boolean).join(', ') ||
    `form ${i + 1}`;
  return html`<div class="union"><select ...${own} value=${String(at)} aria-label=${'Form of ' + label} onChange=${(
    /** @type {any} */ e,
  ) => {
    const i = Number(e.target.value);
    setChosen(i);
    onChange(i < 0 ? undefined : blank(all[i], shared.root));
  }}>${required ? null : html`<option value="-1"></option>`}${all.map((v, i) => html`<option value=${String(i)}>${name(v, i)}
    </option>`)}</select>
  ${all[at] ? html`<${Variant} key=${at} schema=${all[at]} value=${value} path=${path} label=${label} shared=${shared}
  onChange=${onChange} />` : null}</div>`;
}

/** The value of the member that tells the forms of a union apart. @param {any} v */
function tagged(v) {
  for (const one of Object.values(v.properties || {}))
    if (one && typeof one === 'object' && /** @type {any} */ (one).const !== undefined)
      return String(/** @type {any} */ (one).const);
  return '';
}

/** @param {Omit<FieldProps, 'required'>} props */
function Variant({ schema, value, path, label, shared, onChange }) {
  const what = kind(schema);
  if (what === 'object')
    return html`<${Members} schema=${schema} value=${value} path=${path} shared=${shared} onChange=${onChange} />`;
  if (what === 'array')
    return html`<${Items} schema=${schema} value=${Array.isArray(value) ? value : []} path=${path} label=${label} shared=${shared}
      onChange=${onChange} />`;
  if (what === 'null' || what === 'const') return null;
  return html`<${Input} schema=${schema} value=${value} path=${path + '/='} label=${label} required=${false} shared=${shared}
    onChange=${onChange} what=${what} invalid=${false} />`;
}

/** A value, or nothing if it is the null that holds the place of one. @param {any} schema @param {any} value @param {Shared} shared */
const unset = (schema, value, shared) =>
  value === null && check(schema, null, { root: shared.root }).length ? undefined : value;

/** The members of an object. @param {{schema: any, value: any, path: string, shared: Shared, onChange: (v: any) => void}} props */
function Members({ schema, value, path, shared, onChange }) {
  const have =
    value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Unparsed) ? value : {};
  const set = (/** @type {string} */ name, /** @type {any} */ v) => {
    const next = { ...have };
    if (v === undefined) delete next[name];
    else next[name] = v;
    onChange(next);
  };
  const named = Object.entries(schema.properties || {});
  const must = new Set(Array.isArray(schema.required) ? schema.required : []);
  named.sort(([a], [b]) => Number(must.has(b)) - Number(must.has(a)));
  const more = Object.keys(have).filter((k) => !Object.hasOwn(schema.properties || {}, k));
  const further = isSchema(schema.additionalProperties) ? schema.additionalProperties : {};
  const open =
    schema.additionalProperties === true || isSchema(schema.additionalProperties) || isSchema(schema.patternProperties);
  return html`${named.map(([name, one]) => html`<${Field} key=${name} schema=${one} value=${have[name]} path=${`${path}/${name}`}
    label=${name} required=${must.has(name)} shared=${shared} onChange=${(/** @type {any} */ v) => set(name, v)} />`)}
    ${more.map(
      (
        name,
      ) => html`<div class="extra" key=${'+' + name}><${Field} schema=${further} value=${unset(further, have[name], shared)}
        path=${`${path}/${name}`} label=${name} required=${false} shared=${shared}
        onChange=${(/** @type {any} */ v) => set(name, v === undefined ? null : v)} />
      <button type="button" class="small" onClick=${() => set(name, undefined)} aria-label=${'Remove ' + name}>Remove</button>
      </div>`,
    )}
    ${open ? html`<${NewMember} path=${path} taken=${[...Object.keys(schema.properties || {}), ...more]}
    onAdd=${(/** @type {string} */ name) => set(name, blank(schema.additionalProperties, shared.root) ?? null)} />` : null}`;
}

/** @param {{path: string, taken: string[], onAdd: (name: string) => void}} props */
function NewMember({ path, taken, onAdd }) {
  const [name, setName] = useState('');
  const add = () => {
    if (name && !taken.includes(name)) {
      onAdd(name);
      setName('');
    }
  };
  return html`<div class="bar"><input aria-label="Name of a new member" placeholder="name" data-testid=${'member' + path}
    value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)}
    onKeyDown=${(/** @type {KeyboardEvent} */ e) => {
      if (e.key === 'Enter') {
        e.preventDefault();
        add();
      }
    }}
    onKeyPress=${(/** @type {KeyboardEvent} */ e) => {
      if (e.key === 'Enter') e.preventDefault();
    }} /><button type="button" class="small" data-testid=${'add-member' + path} disabled=${!name || taken.includes(name)}
      onClick=${add}>Add member</button>
    ${taken.includes(name) ? html`<span class="problem">There is one of that name.</span>` : null}</div>`;
}

/** The items of an array. @param {Omit<FieldProps, 'required'>} props */
function Items({ schema, value, path, label, shared, onChange }) {
  const list = Array.isArray(value) ? value : [];
  const set = (/** @type {number} */ i, /** @type {any} */ v) =>
    onChange(list.map((old, j) => (j === i ? (v ?? null) : old)));
  const full = list.length >= (schema.maxItems ?? Infinity) || element(schema, list.length) === false;
  const swap = (/** @type {number} */ i) =>
    onChange(list.map((old, j) => (j === i - 1 ? list[i] : j === i ? list[i - 1] : old)));
  return html`<ol class="items" start="0">${list.slice(0, 200).map(
    (
      v,
      i,
    ) => html`<li key=${i}><${Field} schema=${element(schema, i)} value=${unset(element(schema, i), v, shared)}
      path=${`${path}/${i}`} label=${`${label} ${i}`} required=${true} shared=${shared}
      onChange=${(/** @type {any} */ x) => set(i, x)} />
      <span class="bar">${i > 0 ? html`<button type="button" class="small" onClick=${() => swap(i)}
      aria-label=${`Move ${label} ${i} up`}>↑</button>` : null}
      <button type="button" class="small" onClick=${() => onChange(list.filter((_, j) => j !== i))}
      aria-label=${`Remove ${label} ${i}`}>Remove</button></span></li>`,
  )}</ol>
    ${list.length > 200 ? html`<p class="soft">… ${list.length - 200} more; see JSON</p>` : null}
    <button type="button" class="small" data-testid=${'item' + path} disabled=${full}
    onClick=${() => onChange([...list, blank(element(schema, list.length), shared.root) ?? null])}>Add to ${label}</button>`;
}

/** Chooses a stored value to refer to. @param {{path: string, shared: Shared, onPick: (name: string) => void}} props */
function Picker({ path, shared, onPick }) {
  if (!shared.references?.length) return null;
  return html`<select class="small pick" data-testid=${'pick' + path} aria-label="Refer to a stored value" value="" onChange=${(
    /** @type {any} */ e,
  ) => {
    if (e.target.value) {
      onPick(e.target.value);
      e.target.value = '';
    }
  }}>
    <option value="">@</option>${shared.references.map((v) => html`<option
    value=${v.name}>@${v.name} ${v.type ? `(${v.type})` : ''}</option>`)}</select>`;
}
