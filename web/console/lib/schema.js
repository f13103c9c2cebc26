// JSON Schemas, as far as a form needs to know them: what kind of value is
// wanted, what to begin with, and what is wrong with what was typed. The hub
// checks all of a schema when the tool is called; this is to be told earlier.

/** @typedef {Record<string, any>} Schema */
/** @typedef {{path: string, text: string, missing?: boolean, unparsed?: boolean}} Problem */

/** What was typed where JSON is wanted, and is none yet. */
export class Unparsed {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
  toJSON() {
    return this.text;
  }
}

const deepest = 24;

/** The schema at a local $ref. @param {string} ref @param {Schema} root */
function at(ref, root) {
  if (!ref.startsWith('#')) return undefined;
  /** @type {any} */ let found = root;
  for (const part of ref.slice(1).split('/').slice(1)) {
    let key = part;
    try {
      key = decodeURIComponent(part);
    } catch {
      /* it is as it stands */
    }
    key = key.replace(/~1/g, '/').replace(/~0/g, '~');
    if (found === null || typeof found !== 'object' || !Object.hasOwn(found, key)) return undefined;
    found = found[key];
  }
  return found;
}

/** A schema with its $ref and allOf put into it. @param {any} schema @param {Schema} root @param {number} [depth] @returns {Schema} */
export function resolve(schema, root, depth = 0) {
  if (schema === null || typeof schema !== 'object' || Array.isArray(schema) || depth > deepest) return {};
  let out = schema;
  if (typeof out.$ref === 'string') {
    const { $ref, ...rest } = out;
    out = { ...resolve(at($ref, root), root, depth + 1), ...rest };
  }
  if (Array.isArray(out.allOf)) {
    const { allOf, ...rest } = out;
    const merged = /** @type {Schema} */ ({});
    for (const part of [...allOf.map((/** @type {any} */ s) => resolve(s, root, depth + 1)), rest]) {
      const properties = { ...merged.properties, ...part.properties };
      const required = [
        ...new Set([...(merged.required || []), ...(Array.isArray(part.required) ? part.required : [])]),
      ];
      Object.assign(merged, part);
      if (Object.keys(properties).length) merged.properties = properties;
      if (required.length) merged.required = required;
    }
    out = merged;
  }
  return out;
}

/** The schemas of which a value may be any; none if it is no union. @param {Schema} schema @param {Schema} root @returns {Schema[]} */
export function variants(schema, root) {
  const among = [schema.anyOf, schema.oneOf].find((list) => Array.isArray(list) && list.length);
  if (among) {
    const { anyOf: _a, oneOf: _o, ...base } = schema;
    delete base.default;
    return among.map((/** @type {any} */ s) => {
      const part = resolve(s, root);
      const properties =
        base.properties || part.properties ? { properties: { ...base.properties, ...part.properties } } : {};
      const required = [...(base.required || []), ...(part.required || [])];
      return {
        ...base,
        title: undefined,
        description: undefined,
        ...part,
        ...properties,
        ...(required.length ? { required } : {}),
      };
    });
  }
  if (Array.isArray(schema.type) && schema.type.length > 1 && !schema.enum)
    return schema.type.map((type) => ({ ...schema, type, title: undefined }));
  return [];
}

/** Whether a member whose value is fixed says which form of a union is meant, and that a value is of it. @param {Schema} variant @param {any} value */
function tagged(variant, value) {
  if (typeOf(value) !== 'object') return false;
  return Object.entries(variant.properties || {}).some(
    ([name, one]) =>
      one !== null &&
      typeof one === 'object' &&
      ((one.const !== undefined && same(one.const, value[name])) ||
        (Array.isArray(one.enum) && one.enum.length === 1 && same(one.enum[0], value[name]))),
  );
}

/**
 * Which form of a union a value has: the first that it fits, else the one that it says it is, else the one with the least to be mended.
 * @param {Schema[]} all @param {any} value @param {{root: Schema, references?: boolean}} how @param {string} [path] @param {number} [depth]
 * @returns {{at: number, problems: Problem[]}} at is -1 if not even the type fits any
 */
export function closest(all, value, how, path = '', depth = 0) {
  const tried = all.map((v) => check(v, value, how, path, depth));
  let at = tried.findIndex((p) => !p.length);
  if (at < 0) at = all.findIndex((v) => tagged(v, value));
  if (at < 0) {
    tried.forEach((p, i) => {
      if (!p.some((one) => one.path === path) && (at < 0 || p.length < tried[at].length)) at = i;
    });
  }
  return { at, problems: at < 0 ? [{ path, text: 'fits none of the forms it may have' }] : tried[at] };
}

/** What a value is to be: const, enum, union, object, array, string, number, integer, boolean, null or any. @param {Schema} schema */
export function kind(schema) {
  if (schema.const !== undefined) return 'const';
  if (Array.isArray(schema.enum) && schema.enum.length) return 'enum';
  if ((Array.isArray(schema.anyOf) && schema.anyOf.length) || (Array.isArray(schema.oneOf) && schema.oneOf.length))
    return 'union';
  const type = Array.isArray(schema.type) ? (schema.type.length === 1 ? schema.type[0] : 'union') : schema.type;
  if (type === 'union' && !schema.type.length) return 'any';
  if (type === undefined) {
    if (schema.properties) return 'object';
    if (schema.items || schema.prefixItems) return 'array';
    return 'any';
  }
  if (type === 'object' && !Object.keys(schema.properties || {}).length && !isSchema(schema.additionalProperties))
    return 'any';
  return ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null', 'union'].includes(type) ? type : 'any';
}

/** Whether additional members have a schema that says something. @param {any} s */
export function isSchema(s) {
  return s !== null && typeof s === 'object' && Object.keys(s).length > 0;
}

/** The schema of the element i of an array. @param {Schema} schema @param {number} i @returns {any} */
export function element(schema, i) {
  const fixed = Array.isArray(schema.prefixItems)
    ? schema.prefixItems
    : Array.isArray(schema.items)
      ? schema.items
      : [];
  if (i < fixed.length) return fixed[i];
  return Array.isArray(schema.items) ? (schema.additionalItems ?? {}) : (schema.items ?? {});
}

/** What a form begins with; undefined where there is nothing to begin with. @param {any} raw @param {Schema} root @param {number} [depth] @returns {any} */
export function blank(raw, root, depth = 0) {
  const schema = resolve(raw, root);
  if (schema.default !== undefined) return structuredClone(schema.default);
  switch (kind(schema)) {
    case 'const':
      return schema.const;
    case 'object': {
      const out = /** @type {Record<string, any>} */ ({});
      if (depth > 4) return out;
      for (const name of Array.isArray(schema.required) ? schema.required : []) {
        const value =
          schema.properties && Object.hasOwn(schema.properties, name)
            ? blank(schema.properties[name], root, depth + 1)
            : undefined;
        if (value !== undefined) out[name] = value;
      }
      for (const [name, one] of Object.entries(schema.properties || {}))
        if (out[name] === undefined && one?.default !== undefined) out[name] = structuredClone(one.default);
      return out;
    }
    case 'array': {
      const fixed = Array.isArray(schema.prefixItems)
        ? schema.prefixItems.map((/** @type {any} */ s) => blank(s, root, depth + 1) ?? null)
        : [];
      while (depth < 4 && fixed.length < Math.min(schema.minItems || 0, 20))
        fixed.push(blank(element(schema, fixed.length), root, depth + 1) ?? null);
      return fixed;
    }
    case 'null':
      return null;
    case 'union': {
      const first = variants(schema, root)[0];
      return first && ['object', 'array'].includes(kind(resolve(first, root)))
        ? blank(first, root, depth + 1)
        : undefined;
    }
    case 'any':
      return schema.type === 'object' && depth === 0 ? {} : undefined;
  }
  return undefined;
}

/** @param {any} value */
function typeOf(value) {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value;
}

/** @param {any} value @param {string} type */
function is(value, type) {
  const t = typeOf(value);
  return type === 'integer' ? t === 'number' && Number.isInteger(value) : t === type;
}

/** Whether a text stands for a stored value. @param {any} v */
export function isReference(v) {
  return typeof v === 'string' && /^@[\p{L}_][\p{L}\p{N}_-]*/u.test(v);
}

/** Whether two values are the same JSON. @param {any} a @param {any} b */
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/**
 * What is wrong with a value. Patterns are left to the hub: those of strangers may take a browser forever.
 * @param {any} raw @param {any} value @param {{root: Schema, references?: boolean}} how @param {string} [path] @param {number} [depth] @returns {Problem[]}
 */
export function check(raw, value, how, path = '', depth = 0) {
  if (raw === false) return [{ path, text: 'nothing may stand here' }];
  const schema = resolve(raw, how.root);
  if (depth > deepest) return [];
  if (value instanceof Unparsed) return [{ path, text: 'this is no JSON yet', unparsed: true }];
  if (how.references && isReference(value)) return [];
  const wrong = (/** @type {string} */ text) => [{ path, text }];
  if (schema.const !== undefined && !same(schema.const, value)) return wrong(`must be ${JSON.stringify(schema.const)}`);
  if (Array.isArray(schema.enum) && !schema.enum.some((e) => same(e, value)))
    return wrong(
      `must be one of ${schema.enum
        .slice(0, 12)
        .map((e) => JSON.stringify(e))
        .join(', ')}`,
    );
  const types = schema.type === undefined ? [] : [schema.type].flat();
  if (types.length && !types.some((t) => is(value, t))) return wrong(`must be ${types.map(article).join(' or ')}`);
  const among = [schema.anyOf, schema.oneOf].find((list) => Array.isArray(list) && list.length);
  if (among) {
    const { problems } = closest(variants(schema, how.root), value, how, path, depth + 1);
    if (problems.length) return problems;
  }
  switch (typeOf(value)) {
    case 'string':
      return text(schema, value, wrong);
    case 'number':
      return number(schema, value, wrong);
    case 'array':
      return list(schema, value, how, path, depth, wrong);
    case 'object':
      return members(schema, value, how, path, depth);
  }
  return [];
}

/** @param {string} type */
const article = (type) => (type === 'null' ? 'null' : (/^[aeio]/.test(type) ? 'an ' : 'a ') + type);

/** Formats that a person gets wrong. The hub lets others pass; many tools do not. @type {Record<string, (v: string) => boolean>} */
const formats = {
  date: (v) => /^\d{4}-\d\d-\d\d$/.test(v) && !Number.isNaN(Date.parse(v)),
  time: (v) => /^\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$/i.test(v),
  'date-time': (v) =>
    /^\d{4}-\d\d-\d\d[t ]\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$/i.test(v) &&
    !Number.isNaN(Date.parse(v.replace(' ', 'T'))),
  email: (v) => /^[^\s@]+@[^\s@]+$/.test(v),
  uri: (v) => URL.canParse(v),
  uuid: (v) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(v),
  ipv4: (v) => /^\d{1,3}(\.\d{1,3}){3}$/.test(v) && v.split('.').every((n) => Number(n) < 256),
};

/** @param {Schema} s @param {string} v @param {(t: string) => Problem[]} wrong */
function text(s, v, wrong) {
  const length = [...v].length;
  if (s.minLength > length)
    return wrong(s.minLength === 1 ? 'must not be empty' : `must have at least ${s.minLength} characters`);
  if (s.maxLength < length) return wrong(`must have at most ${s.maxLength} characters, and has ${length}`);
  if (v !== '' && Object.hasOwn(formats, s.format) && !formats[s.format](v))
    return wrong(`does not look like ${article(s.format)}`);
  return [];
}

/** @param {Schema} s @param {number} v @param {(t: string) => Problem[]} wrong */
function number(s, v, wrong) {
  if (v < s.minimum) return wrong(`must be at least ${s.minimum}`);
  if (v > s.maximum) return wrong(`must be at most ${s.maximum}`);
  if (typeof s.exclusiveMinimum === 'number' && v <= s.exclusiveMinimum)
    return wrong(`must be more than ${s.exclusiveMinimum}`);
  if (typeof s.exclusiveMaximum === 'number' && v >= s.exclusiveMaximum)
    return wrong(`must be less than ${s.exclusiveMaximum}`);
  if (s.multipleOf > 0 && Math.abs(v / s.multipleOf - Math.round(v / s.multipleOf)) > 1e-9)
    return wrong(`must be a multiple of ${s.multipleOf}`);
  return [];
}

/** @param {Schema} s @param {any[]} v @param {any} how @param {string} path @param {number} depth @param {(t: string) => Problem[]} wrong @returns {Problem[]} */
function list(s, v, how, path, depth, wrong) {
  if (v.length < s.minItems) return wrong(`must have at least ${s.minItems} items`);
  if (v.length > s.maxItems) return wrong(`must have at most ${s.maxItems} items, and has ${v.length}`);
  if (s.uniqueItems && new Set(v.map((x) => JSON.stringify(x))).size < v.length)
    return wrong('must not have an item twice');
  return v.slice(0, 1000).flatMap((x, i) => check(element(s, i), x, how, `${path}/${i}`, depth + 1));
}

/** @param {Schema} s @param {Record<string, any>} v @param {any} how @param {string} path @param {number} depth @returns {Problem[]} */
function members(s, v, how, path, depth) {
  /** @type {Problem[]} */ const out = [];
  for (const name of Array.isArray(s.required) ? s.required : [])
    if (v[name] === undefined) out.push({ path: `${path}/${name}`, text: 'is required', missing: true });
  for (const [name, one] of Object.entries(v)) {
    if (one === undefined) continue;
    const own = s.properties && Object.hasOwn(s.properties, name);
    if (own) out.push(...check(s.properties[name], one, how, `${path}/${name}`, depth + 1));
    else if (s.additionalProperties === false && !s.patternProperties)
      out.push({ path: `${path}/${name}`, text: 'is not known to the tool' });
    else if (isSchema(s.additionalProperties))
      out.push(...check(s.additionalProperties, one, how, `${path}/${name}`, depth + 1));
  }
  return out;
}
