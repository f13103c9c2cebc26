// Calls the agents of a hub, from Node 18 on and with nothing but Node.
//
//   import { AgentClient } from './agentclient.mjs';
//   const client = new AgentClient();      // ROUTER_HOST, ROUTER_PORT, AGENT_TOKEN
//   const result = await client.callTool('builder', 'build', { target: 'all' });
//
// Calls say which call they come of. A command that `stoa agent` starts finds that in its
// environment; an agent that serves MCP by itself reads it from the request with chainFrom and
// gives it as the option chain of each call that it makes for that request.

const VERSION = '2025-11-25';
const PARTS = { 'stoa/chain': 'STOA_CHAIN', traceparent: 'TRACEPARENT', tracestate: 'TRACESTATE', baggage: 'BAGGAGE' };
const PAGES = 1000;

/** Why a request was refused, or could not be made. */
export class AgentError extends Error {
  constructor(message, { agent, method, status = 0, code = 0, data, cause } = {}) {
    super(message, { cause });
    this.name = 'AgentError';
    Object.assign(this, { agent, method, status, code, data, kind: data?.kind ?? '', hint: data?.hint ?? '', retryable: data?.retryable === true });
  }
}

/** The chain in the _meta of a request that an agent serves. Its parts are opaque: pass them on. */
export function chainFrom(meta) {
  const chain = {};
  for (const name of Object.keys(PARTS)) if (typeof meta?.[name] === 'string') chain[name] = meta[name];
  return chain;
}

/** The chain of a command that an agent has started. */
export function chainFromEnv(env = process.env) {
  const chain = {};
  for (const [name, variable] of Object.entries(PARTS)) if (env[variable]) chain[name] = env[variable];
  return chain;
}

export class AgentClient {
  #base;
  #token;
  #chain;
  #next = 0;

  /** Everything may be left out: the rest comes from the environment. */
  constructor({ url, host, port, token, chain } = {}) {
    const { ROUTER_HOST, ROUTER_PORT, AGENT_TOKEN } = process.env;
    const name = (host || ROUTER_HOST || 'localhost').replace(/^\[|\]$/g, '');
    this.#base = (url || `http://${name.includes(':') ? `[${name}]` : name}:${port || ROUTER_PORT || 8088}`).replace(/\/+$/, '');
    this.#token = token || AGENT_TOKEN || '';
    this.#chain = chain ?? chainFromEnv();
  }

  /** What a tool said: {content, structuredContent, isError}. isError says that the tool said no. */
  async callTool(agent, tool, args = {}, { priority, timeoutMs, ...options } = {}) {
    const meta = { ...options.meta };
    if (priority) meta['stoa/priority'] = priority;
    if (timeoutMs) meta['stoa/timeoutMs'] = timeoutMs;
    return this.request(agent, 'tools/call', { name: tool, arguments: args }, { ...options, meta });
  }

  /** All tools of an agent. */
  async listTools(agent, options = {}) {
    const tools = [];
    const params = {};
    for (let page = 0; page < PAGES; page++) {
      const answer = await this.request(agent, 'tools/list', params, options);
      tools.push(...(answer.tools ?? []));
      if (answer.nextCursor === undefined || answer.nextCursor === null) return tools;
      params.cursor = answer.nextCursor;
    }
    throw new AgentError(`the list of ${agent} does not end within ${PAGES} pages`, { agent, method: 'tools/list' });
  }

  /** Any request of the protocol. options: chain, meta, signal (an AbortSignal). */
  async request(agent, method, params = {}, { chain = this.#chain, meta, signal } = {}) {
    const id = ++this.#next;
    const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'Mcp-Protocol-Version': VERSION };
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    const body = JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, _meta: { ...chain, ...params._meta, ...meta } } });
    const about = { agent, method };
    let response, text;
    try {
      response = await fetch(`${this.#base}/mcps/${encodeURIComponent(agent)}/mcp`, { method: 'POST', headers, body, signal });
      text = await response.text();
    } catch (cause) {
      if (signal?.aborted) throw cause;
      throw new AgentError(`the router at ${this.#base} cannot be asked: ${cause.cause?.message ?? cause.message}`, { ...about, cause });
    }
    about.status = response.status;
    const message = messages(response, text).find((m) => m?.error || m?.id === id);
    if (!message) throw new AgentError(`the answer is no JSON-RPC message but status ${response.status}: ${text}`, about);
    if (message.error) throw new AgentError(message.error.message, { ...about, code: message.error.code, data: message.error.data });
    return message.result;
  }
}

/** The messages of an answer, which is one or a stream of events that ends with it. */
function messages(response, text) {
  const parse = (json) => {
    try {
      return JSON.parse(json);
    } catch {
      return undefined;
    }
  };
  if (!(response.headers.get('Content-Type') ?? '').startsWith('text/event-stream')) return [parse(text)];
  return text.split(/\r?\n\r?\n/).map((event) => {
    const data = event.split(/\r?\n/).filter((line) => line.startsWith('data:'));
    return parse(data.map((line) => line.slice(5).trimStart()).join('\n'));
  });
}
