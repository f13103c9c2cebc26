// A page over MCPBrowserClient: it connects, lists, calls with progress and abort, waits for tasks, asks the user what a
// server wants to know, and reads resources. The client itself comes from the hub.

/** @param {string} id */
const el = (id) => /** @type {any} */ (document.getElementById(id));
const [connect, call, read] = [el('connect'), el('call'), el('read')];

/** @type {any} the client of the connection that is open */
let client = null;
/** @type {any[]} */
let tools = [];
/** @type {AbortController|null} */
let running = null;

const asked = new URLSearchParams(location.search);
for (const name of ['hub', 'agent', 'protocol']) if (asked.has(name)) connect.elements[name].value = asked.get(name);

/**
 * Shows an outcome: what a tool said, or why it could not be asked.
 * @param {HTMLElement} where
 * @param {string} text
 * @param {boolean} bad
 */
function show(where, text, bad) {
  where.textContent = text;
  where.hidden = false;
  where.classList.toggle('error', bad);
}

/** @param {any} e */
function explain(e) {
  if (e?.name === 'AbortError') return 'Aborted.';
  const facts = [e?.kind, e?.code && `code ${e.code}`, e?.status && `HTTP ${e.status}`].filter(Boolean).join(', ');
  return [`${e?.name ?? 'Error'}: ${e?.message ?? e}`, facts, e?.hint].filter(Boolean).join('\n');
}

/** @param {any} block */
function text(block) {
  if (block.type === 'text') return block.text;
  return `[${block.type} ${block.mimeType ?? block.uri ?? ''}]`;
}

/** @param {string} line */
function note(line) {
  const notes = el('notes');
  notes.textContent = (notes.textContent + line + '\n').split('\n').slice(-50).join('\n'); // enough to look at
}

/**
 * Puts a server's question to the user.
 * @param {any} params
 */
function elicit(params) {
  const [name] = Object.keys(params.requestedSchema?.properties ?? {});
  const answer = prompt(params.message, '');
  if (answer === null) return { action: 'decline' };
  return { action: 'accept', content: name ? { [name]: answer } : {} };
}

connect.addEventListener('submit', async (/** @type {Event} */ event) => {
  event.preventDefault();
  const { hub, agent, token, protocol } = connect.elements;
  const base = new URL(hub.value || '/', location.href).href.replace(/\/$/, '');
  el('main').hidden = true;
  el('state').textContent = 'Connecting …';
  try {
    await client?.close();
    const { MCPBrowserClient } = await import(`${base}/MCPBrowserClient.js`);
    client = new MCPBrowserClient({
      baseUrl: base + (agent.value ? '/mcps/' + encodeURIComponent(agent.value) : ''),
      token: token.value,
      protocol: protocol.value,
      pollIntervalMs: 500,
      onElicitation: elicit,
      onNotification: (/** @type {string} */ method) => note(method),
    });
    const link = await client.connect();
    await refresh();
    client.listen({ toolsListChanged: true }, { onNotification: refresh }).catch((/** @type {any} */ e) => note(explain(e)));
    el('state').textContent = `Connected to ${link.serverInfo?.name ?? base}, version ${link.version} of the protocol: ${tools.length} tools.`;
    el('main').hidden = false;
  } catch (e) {
    el('state').textContent = explain(e);
  }
});

async function refresh() {
  tools = await client.listTools();
  const resources = await client.listResources();
  fill(call.elements.tool, tools.map((t) => t.name));
  fill(read.elements.uri, resources.map((/** @type {any} */ r) => r.uri));
  describe();
}

/**
 * @param {HTMLSelectElement} select
 * @param {string[]} values
 */
function fill(select, values) {
  const before = select.value;
  select.replaceChildren(...values.map((v) => new Option(v, v, false, v === before)));
}

function describe() {
  const tool = tools.find((t) => t.name === call.elements.tool.value);
  el('description').textContent = tool?.description ?? '';
}
call.elements.tool.addEventListener('change', describe);
call.elements.abort.addEventListener('click', () => running?.abort());

call.addEventListener('submit', async (/** @type {Event} */ event) => {
  event.preventDefault();
  const bar = el('progress');
  const { tool, run, abort } = call.elements;
  running = new AbortController();
  [run.disabled, abort.disabled, el('result').hidden] = [true, false, true];
  try {
    const result = await client.callTool(tool.value, JSON.parse(call.elements.arguments.value || '{}'), {
      signal: running.signal,
      onProgress: (/** @type {any} */ p) => {
        bar.hidden = false;
        if (p.total) [bar.max, bar.value] = [p.total, Math.max(0, p.progress)];
        el('step').textContent = p.message ?? String(p.progress);
      },
      onTask: (/** @type {any} */ task) => {
        el('step').textContent = `Task ${task.taskId}: ${task.status} ${task.statusMessage ?? ''}`;
      },
    });
    show(el('result'), result.content.map(text).join('\n'), result.isError === true);
  } catch (e) {
    show(el('result'), explain(e), true);
  }
  [run.disabled, abort.disabled, bar.hidden] = [false, true, true];
});

read.addEventListener('submit', async (/** @type {Event} */ event) => {
  event.preventDefault();
  try {
    const { contents } = await client.readResource(read.elements.uri.value);
    show(el('contents'), contents.map((/** @type {any} */ c) => c.text ?? `[${c.blob.length} characters of base64]`).join('\n'), false);
  } catch (e) {
    show(el('contents'), explain(e), true);
  }
});

if (asked.has('hub')) connect.requestSubmit();
