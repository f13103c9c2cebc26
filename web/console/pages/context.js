// Context: the values of a session, what they are, where they are from and what
// came of them; look, change, remove.
import { html, useState, useEffect, useRef } from '../lib/html.js';
import { api, ask } from '../lib/api.js';
import { listen } from '../lib/events.js';
import { Link, go, narrow } from '../lib/router.js';
import { Page, Table, Trouble, Empty, useApi, Button, Search, Time, Copy, bytes, Pre, Side } from '../lib/ui.js';
import { Json } from '../lib/json.js';
import { indent } from '../lib/jsontext.js';
import { Pager, Sure } from '../lib/more.js';
import { save } from '../lib/save.js';
import { Facts } from './servers.js';

const size = 50; // rows of a page

/** @param {{rest: string[], query: Record<string, string>}} props */
export function Context({ rest, query }) {
  return rest[0]
    ? html`<${Values} key=${rest[0] + query.principal} session=${rest[0]} name=${rest[1]} query=${query} />`
    : html`<${Choose} query=${query} />`;
}

/** @param {{query: Record<string, string>}} props */
function Choose({ query }) {
  const offset = Number(query.offset) || 0;
  const { data, error } = useApi(
    `/api/v1/sessions?limit=${size}&offset=${offset}` +
      (query.search ? '&search=' + encodeURIComponent(query.search) : ''),
    5000,
  );
  return html`<${Page} title="Context" actions=${html`<${Search} label="Search sessions" value=${query.search || ''}
    onChange=${(/** @type {string} */ v) => narrow({ search: v, offset: undefined })} />`}><${Trouble} error=${error} />
    <p class="soft">Values are kept for a session. Whose are to be shown?</p>
    ${
      data
        ? html`<${Table} rows=${data.sessions} empty="No session holds anything yet."
          rowKey=${(/** @type {any} */ s) => s.principal + '/' + s.name} columns=${[
            {
              title: 'Session',
              render: (/** @type {any} */ s) =>
                html`<${Link} to=${'context/' + encodeURIComponent(s.name)} query=${{ principal: s.principal }}
                  data-testid=${'session-' + s.name}>${s.name}<//>`,
            },
            { key: 'principal', title: 'Of' },
            { key: 'values', title: 'Values', className: 'num' },
            { title: 'Last use', render: (/** @type {any} */ s) => html`<${Time} at=${s.used} />` },
          ]} />
    <${Pager} offset=${offset} size=${size} total=${data.total} />`
        : null
    }<//>`;
}

/** @param {{session: string, name?: string, query: Record<string, string>}} props */
function Values({ session, name, query }) {
  const whose = query.principal ? '?principal=' + encodeURIComponent(query.principal) : '';
  const at = '/api/v1/sessions/' + encodeURIComponent(session);
  const offset = Number(query.offset) || 0;
  const page = new URLSearchParams({
    ...(query.principal ? { principal: query.principal } : {}),
    ...(query.search ? { search: query.search } : {}),
    offset: String(offset),
    limit: String(size),
  });
  const { data, error, again } = useApi(at + '?' + page, 5000);
  useEffect(
    () =>
      listen((e) => {
        if (/^session\./.test(e.type) && e.session === session) again();
      }, false),
    [session],
  );
  const keep = { principal: query.principal, search: query.search, offset: query.offset };
  const to = (/** @type {string} */ value) =>
    'context/' + encodeURIComponent(session) + '/' + encodeURIComponent(value);
  return html`<${Page} title=${'Context of ' + session} actions=${html`<${Link} to="context">All sessions<//> <${Search}
    label="Search values" value=${query.search || ''}
    onChange=${(/** @type {string} */ v) => narrow({ search: v, offset: undefined })} data-testid="search" />`}>
    <${Trouble} error=${error} />
    <div class=${name ? 'split' : ''}>${
      data
        ? html`<div><${Table} rows=${data.values} empty="It holds no such value." selected=${name}
          onRow=${(/** @type {any} */ v) => go(to(v.name), keep)} columns=${[
            {
              title: 'Name',
              render: (/** @type {any} */ v) =>
                html`<${Link} to=${to(v.name)} query=${keep} data-testid=${'value-' + v.name}>@${v.name}<//>
                  ${v.description ? html`<div class="soft">${v.description}</div>` : null}`,
            },
            { title: 'Type', render: (/** @type {any} */ v) => html`${v.type}<div class="soft">${v.summary}</div>` },
            { title: 'Size', className: 'num', render: (/** @type {any} */ v) => bytes(v.size) },
            ...(name
              ? []
              : [
                  { key: 'version', title: 'Version', className: 'num' },
                  { title: 'From', render: (/** @type {any} */ v) => v.origin?.tool || v.by || '—' },
                  { title: 'Stored', render: (/** @type {any} */ v) => html`<${Time} at=${v.time} />` },
                ]),
          ]} />
      <${Pager} offset=${offset} size=${size} total=${data.total} /></div>`
        : null
    }
    ${
      name
        ? html`<${Value} key=${name} at=${at + '/values/' + encodeURIComponent(name)} whose=${whose} session=${session}
          name=${name} to=${to} back=${'context/' + encodeURIComponent(session)} query=${query} gone=${() => {
            again();
            go('context/' + encodeURIComponent(session), keep);
          }} again=${again} />`
        : null
    }</div><//>`;
}

/** One value. @param {any} props */
function Value({ at, whose, session, name, to, back, query, gone, again }) {
  const { data, error, again: reread } = useApi(at + '/provenance' + whose, 5000);
  useEffect(
    () =>
      listen((e) => {
        if (/^session\./.test(e.type) && e.session === session) reread();
      }, false),
    [session],
  );
  const [text, setText] = useState(/** @type {string|null} */ (null));
  const [over, setOver] = useState(0); // the version that is edited: no other may be lost
  const [wrong, setWrong] = useState('');
  const and = whose ? '&' : '?';
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  useEffect(() => {
    if (text !== null) box.current?.focus();
  }, [text === null]);
  const edit = async () => {
    if (data.value.size > 200_000) throw new Error('It is too long to be changed here: use context_add.');
    const answer = await ask(at + whose);
    const raw = await answer.text();
    setOver(Number(answer.headers.get('Stoa-Value-Version')));
    setText(indent(raw)); // numbers stay as they are written, however long
    setWrong('');
  };
  const type = (/** @type {string} */ v) => {
    setText(v);
    try {
      JSON.parse(v);
      setWrong('');
    } catch (e) {
      setWrong(String(/** @type {any} */ (e).message));
    }
  };
  const store = async () => {
    await api(at + whose + and + 'over=' + over, { method: 'PUT', body: text });
    setText(null);
    reread();
    again();
  };
  const remove = async () => {
    await api(at + whose, { method: 'DELETE' });
    gone();
  };
  if (!data)
    return html`<${Side} label=${name} back=${back} query=${{ principal: query.principal, search: query.search }}><h2>@${name}
      </h2><${Trouble} error=${error} /><//>`;
  const v = data.value;
  const version = Number(query.version) || v.version;
  return html`<${Side} label=${name} back=${back} query=${{ principal: query.principal, search: query.search }}>
    <header class="page"><h2>@${name}</h2><div class="actions"><${Copy} text=${'@' + name} label="Copy reference" />
      ${' '}${text === null ? html`<${Button} onClick=${edit} data-testid="edit">Edit<//>` : null}
      <${Button} onClick=${async () => save(name + '.json', await (await ask(at + whose)).blob())}>Download<//> <${Sure}
      what=${'Remove ' + name} label="Remove" onClick=${remove} testid="remove" /></div></header>
    <${Trouble} error=${error} />
    <${Facts} of=${[
      ['Type', v.type],
      ['Is', v.summary],
      ['Size', bytes(v.size)],
      ['Version', String(v.version)],
      ['Stored', html`<${Time} at=${v.time} />`],
      ['By', v.by],
      ['From', v.origin?.tool],
      ['Description', v.description],
      [
        'Made with',
        v.origin?.used?.length
          ? v.origin.used.map(
              (/** @type {any} */ u, /** @type {number} */ i) =>
                html`${i ? ', ' : ''}<${Link} to=${to(u.name)} query=${{ principal: query.principal }}>@${u.name}
                  <//> (version ${u.version})`,
            )
          : '',
      ],
    ]} />
    ${
      text === null
        ? null
        : html`<form class="edit" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
          ${over !== v.version ? html`<p class="notice" role="status"
          data-testid="overtaken">Version ${v.version} was stored meanwhile. What you write was made of version ${over}, and will not be taken: copy it, and edit again.</p>` : null}
          <label>New value, as JSON <textarea ref=${box} rows="12" data-testid="editor" aria-invalid=${wrong !== ''} value=${text}
          onInput=${(/** @type {any} */ e) => type(e.target.value)}></textarea></label>
      ${wrong ? html`<p role="alert" class="soft">${wrong}</p>` : null}<div class="actions">
      <${Button} class="primary" disabled=${wrong !== ''} onClick=${store} data-testid="store">Store<//> <button type="button"
      data-testid="leave" onClick=${() => setText(null)}>Leave it</button></div></form>`
    }
    <h3>${version === v.version ? 'Now' : 'Version ' + version}</h3>
    <${Preview} key=${version} at=${at} whose=${whose} version=${version} />
    <h3>History</h3><${Table} rows=${data.versions} rowKey=${(/** @type {any} */ x) => String(x.version)}
    selected=${String(version)} columns=${[
      {
        title: 'Version',
        render: (/** @type {any} */ x) =>
          html`<${Link} to=${to(name)} query=${{ principal: query.principal, version: x.version === v.version ? undefined : String(x.version) }}
            data-testid=${'version-' + x.version}>${x.version}<//>`,
      },
      { title: 'Type', render: (/** @type {any} */ x) => html`${x.type} <span class="soft">${x.summary}</span>` },
      { title: 'Size', className: 'num', render: (/** @type {any} */ x) => bytes(x.size) },
      { title: 'From', render: (/** @type {any} */ x) => x.origin?.tool || x.by || '—' },
      { title: 'Stored', render: (/** @type {any} */ x) => html`<${Time} at=${x.time} />` },
    ]} />
    <h3>Used by</h3>${data.usedBy.length ? html`<ul data-testid="used-by">${data.usedBy.map((/** @type {any} */ u) => html`<li>
    <${Link} to=${to(u.name)} query=${{ principal: query.principal }}>@${u.name}<//>, by ${u.tool} (version ${u.used})</li>`)}
    </ul>` : html`<${Empty}>No value of this session was made with it.<//>`}
  <//>`;
}

/** A value, page by page. @param {{at: string, whose: string, version: number}} props */
function Preview({ at, whose, version }) {
  const [offsets, setOffsets] = useState([0]);
  const offset = offsets[offsets.length - 1];
  const { data, error } = useApi(`${at}/page${whose}${whose ? '&' : '?'}version=${version}&offset=${offset}`);
  if (!data) return html`<${Trouble} error=${error} />`;
  const text = typeof data.page === 'string';
  return html`<div data-testid="preview"><${Trouble} error=${error} />${text ? html`<${Pre}>${data.page}
    <//>` : html`<${Json} value=${data.page} />`}${data.note ? html`<p class="soft">${data.note}</p>` : null}
    ${data.next || offset ? html`<div class="pager">
    <button type="button" disabled=${!offset} onClick=${() => setOffsets(offsets.slice(0, -1))}>Earlier</button><span>
    ${data.unit} from ${offset} of ${data.total}</span><button type="button" data-testid="further" disabled=${!data.next}
    onClick=${() => setOffsets([...offsets, data.next])}>Further</button></div>` : null}</div>`;
}
