// MCPBrowserClient: an MCP client for web pages. One file without dependencies.
//
//     import { MCPBrowserClient } from '/MCPBrowserClient.js';
//
//     const client = new MCPBrowserClient({ baseUrl: '/mcps/agent-name' });
//     const tools = await client.listTools();
//     const result = await client.callTool('execute_code', { code: '1 + 1' });
//
// It is an ES module. A hub also serves it to plain script tags, without its last line; there the class is a global.
//
// It speaks streamable HTTP in both eras of the protocol (2026-07-28, and 2025-11-25 down to 2024-11-05) and finds out
// by itself which one the server speaks. What a server says is handed out as it came. A tool that reports an error is
// an ordinary result with isError; only what could not be asked or was refused is thrown, as an MCPError.

/**
 * @typedef {Record<string, any>} JSONObject
 *
 * @typedef {object} Tool
 * @property {string} name
 * @property {string} [title]
 * @property {string} [description]
 * @property {JSONObject} inputSchema
 *
 * @typedef {object} ToolResult
 * @property {JSONObject[]} content
 * @property {any} [structuredContent]
 * @property {boolean} [isError] the tool said no
 * @property {JSONObject} [_meta]
 *
 * @typedef {object} Resource
 * @property {string} uri
 * @property {string} name
 * @property {string} [title]
 * @property {string} [description]
 * @property {string} [mimeType]
 *
 * @typedef {object} ResourceTemplate
 * @property {string} uriTemplate
 * @property {string} name
 * @property {string} [description]
 * @property {string} [mimeType]
 *
 * @typedef {object} ResourceContents
 * @property {string} uri
 * @property {string} [mimeType]
 * @property {string} [text]
 * @property {string} [blob] base64
 *
 * @typedef {object} Prompt
 * @property {string} name
 * @property {string} [title]
 * @property {string} [description]
 * @property {{name: string, description?: string, required?: boolean}[]} [arguments]
 *
 * @typedef {object} PromptResult
 * @property {string} [description]
 * @property {{role: string, content: JSONObject}[]} messages
 *
 * @typedef {object} Progress
 * @property {number} progress
 * @property {number} [total]
 * @property {string} [message]
 *
 * @typedef {object} Task what a server says of work that outlives its request
 * @property {string} taskId
 * @property {'working'|'input_required'|'completed'|'cancelled'|'failed'} status
 * @property {string} [statusMessage]
 * @property {string} [createdAt]
 * @property {string} [lastUpdatedAt]
 * @property {number|null} [ttlMs]
 * @property {number} [pollIntervalMs]
 * @property {Record<string, {method: string, params?: JSONObject}>} [inputRequests]
 * @property {ToolResult} [result]
 * @property {{code: number, message: string, data?: any}} [error]
 * @property {JSONObject} [_meta] a stoa hub says in its stoa/progress how far the work has come: {progress, total}
 *
 * @typedef {object} Filter what to be told of; the protocol's own names
 * @property {boolean} [toolsListChanged]
 * @property {boolean} [promptsListChanged]
 * @property {boolean} [resourcesListChanged]
 * @property {string[]} [resourceSubscriptions] URIs
 * @property {string[]} [taskIds] modern servers with tasks only
 *
 * @typedef {object} Subscription
 * @property {Filter} honoured what the server agreed to
 * @property {Promise<void>} closed ends when the subscription does; rejects if that was not asked for
 * @property {() => void} close
 *
 * @typedef {object} Link what was agreed on with the server
 * @property {'modern'|'legacy'} era
 * @property {string} version of the protocol
 * @property {string} session legacy: the Mcp-Session-Id; '' if there is none
 * @property {JSONObject} capabilities
 * @property {JSONObject|undefined} serverInfo
 * @property {string} instructions
 *
 * @typedef {(params: JSONObject, context: {signal: AbortSignal}) => any} Answerer
 *
 * @typedef {object} ClientOptions
 * @property {string} [baseUrl] such as '/mcps/agent-name'; '/mcp' is appended where it is missing. Default: the page's own server
 * @property {Record<string, string>|(() => Record<string, string>|Promise<Record<string, string>>)} [headers] sent with every request
 * @property {string|(() => string|Promise<string>)} [token] bearer token
 * @property {RequestCredentials} [credentials] of fetch; default 'same-origin'
 * @property {'auto'|'modern'|'legacy'} [protocol] default 'auto': modern if the server can
 * @property {number} [timeoutMs] silence after which a request is given up; progress starts it anew; 0 means never. Default 120000
 * @property {number} [pollIntervalMs] shortest time between two looks at a task; a server may ask for more. Default 1000 if it does not say
 * @property {{name: string, version: string, title?: string}} [clientInfo]
 * @property {JSONObject} [capabilities] declared besides those that follow from the handlers
 * @property {'debug'|'info'|'notice'|'warning'|'error'|'critical'|'alert'|'emergency'} [logLevel] ask for log messages, which come as notifications
 * @property {(method: string, params: JSONObject) => void} [onNotification] told of every notification
 * @property {(progress: Progress, request: {method: string, name: string}) => void} [onProgress] told of the progress of every request
 * @property {(task: Task) => void} [onTask] told of every state of every task
 * @property {Answerer} [onElicitation] answers what a server asks the user: {action: 'accept'|'decline'|'cancel', content?}
 * @property {Answerer} [onSampling] answers what a server asks a model
 * @property {Answerer} [onRoots] answers roots/list
 * @property {number} [maxRounds] questions in a row that one request may ask; default 10
 * @property {number} [maxMessageChars] longest message taken; default 32 Mi
 *
 * @typedef {object} CallOptions
 * @property {AbortSignal} [signal] ends the request; it then rejects with the signal's reason
 * @property {number} [timeoutMs]
 * @property {number} [pollIntervalMs]
 * @property {(progress: Progress) => void} [onProgress]
 * @property {(task: Task) => void} [onTask]
 * @property {JSONObject} [meta] members of the request's _meta
 */

/** Why something could not be asked, or how the server refused it. */
class MCPError extends Error {
  /**
   * @param {string} message
   * @param {{code?: number, data?: any, status?: number, method?: string, cause?: unknown}} [detail]
   */
  constructor(message, detail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.name = new.target.name;
    /** The JSON-RPC code; 0 where no JSON-RPC error came. */
    this.code = detail.code ?? 0;
    /** @type {any} The error's data, as it came. */
    this.data = detail.data;
    /** The HTTP status; 0 where there was none. */
    this.status = detail.status ?? 0;
    /** The method that was asked for. */
    this.method = detail.method ?? '';
  }

  /** A stoa hub's stable name of the reason, such as 'queue_full'; '' where the error is a server's own. */
  get kind() {
    return typeof this.data?.kind === 'string' ? this.data.kind : '';
  }

  /** What to do about it, where the hub says so. */
  get hint() {
    return typeof this.data?.hint === 'string' ? this.data.hint : '';
  }

  /** Whether the same request may succeed later, unchanged. */
  get retryable() {
    return this.data?.retryable === true;
  }
}

/** No answer came, or one that is not of the protocol. */
class MCPTransportError extends MCPError {}

/** The server was silent for too long. */
class MCPTimeoutError extends MCPError {}

/** A task that ended without a result. */
class MCPTaskError extends MCPError {
  /**
   * @param {string} message
   * @param {Task} task
   */
  constructor(message, task) {
    super(message, { code: task.error?.code, data: task.error?.data, method: 'tasks/get' });
    this.task = task;
  }
}

/** A client of one MCP endpoint. It may be used for any number of requests at once. */
class MCPBrowserClient {
  static #modern = '2026-07-28';
  static #legacy = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
  static #meta = 'io.modelcontextprotocol/';
  static #maxPages = 1000;
  static #retries = 5; // attempts in a row to take up a stream or a poll again
  static #longest = 2 ** 31 - 1; // milliseconds that a timer can wait

  static MCPError = MCPError;
  static MCPTransportError = MCPTransportError;
  static MCPTimeoutError = MCPTimeoutError;
  static MCPTaskError = MCPTaskError;

  #next = 1;
  #closing = new AbortController();
  /** @type {Promise<Link>|null} */
  #link = null;
  /** @type {Map<string, {header: string, path: string[]}[]>} arguments that tools want repeated in headers */
  #mirrored = new Map();
  /** @type {Set<{filter: Filter, tell: (method: string, params: JSONObject) => void, fail: (e: unknown) => void, again: () => void}>} */
  #listeners = new Set(); // legacy: those who share the session's one stream
  #hearing = new AbortController();
  /** @type {ClientOptions & {protocol: string, timeoutMs: number, maxRounds: number, maxMessageChars: number}} */
  #options;

  /** @param {ClientOptions} [options] */
  constructor(options = {}) {
    const protocol = options.protocol ?? 'auto';
    if (!['auto', 'modern', 'legacy'].includes(protocol)) {
      throw new TypeError(`protocol ${JSON.stringify(protocol)}: use 'auto', 'modern' or 'legacy'`);
    }
    this.#options = { timeoutMs: 120_000, maxRounds: 10, maxMessageChars: 32 << 20, ...options, protocol };
    /** The MCP endpoint. */
    this.url = MCPBrowserClient.#endpoint(options.baseUrl ?? '/');
  }

  // ---- what servers offer ----

  /**
   * All tools, from every page of the list.
   * @param {CallOptions} [options]
   * @returns {Promise<Tool[]>}
   */
  async listTools(options = {}) {
    const tools = await this.#list('tools/list', 'tools', options);
    return tools.filter((/** @type {Tool} */ tool) => {
      const bound = MCPBrowserClient.#bindings(tool.inputSchema);
      this.#mirrored.set(tool.name, bound ?? []);
      return bound; // the protocol forbids to offer a tool whose headers cannot be made
    });
  }

  /**
   * Calls a tool and waits for its result, also where the server makes a task of the call.
   * @param {string} name
   * @param {JSONObject} [args]
   * @param {CallOptions} [options]
   * @returns {Promise<ToolResult>}
   */
  async callTool(name, args = {}, options = {}) {
    const params = { name, arguments: args };
    try {
      return await this.request('tools/call', params, options);
    } catch (e) {
      // A tool that wants arguments repeated in headers says so in its schema, which has not been read yet.
      if (!(e instanceof MCPError) || e.code !== -32020 || this.#mirrored.has(name)) throw e;
      await this.listTools(options);
      return this.request('tools/call', params, options);
    }
  }

  /**
   * @param {CallOptions} [options]
   * @returns {Promise<Resource[]>}
   */
  listResources(options = {}) {
    return this.#list('resources/list', 'resources', options);
  }

  /**
   * @param {CallOptions} [options]
   * @returns {Promise<ResourceTemplate[]>}
   */
  listResourceTemplates(options = {}) {
    return this.#list('resources/templates/list', 'resourceTemplates', options);
  }

  /**
   * @param {string} uri
   * @param {CallOptions} [options]
   * @returns {Promise<{contents: ResourceContents[]}>}
   */
  readResource(uri, options = {}) {
    return this.request('resources/read', { uri }, options);
  }

  /**
   * @param {CallOptions} [options]
   * @returns {Promise<Prompt[]>}
   */
  listPrompts(options = {}) {
    return this.#list('prompts/list', 'prompts', options);
  }

  /**
   * @param {string} name
   * @param {Record<string, string>} [args]
   * @param {CallOptions} [options]
   * @returns {Promise<PromptResult>}
   */
  getPrompt(name, args = {}, options = {}) {
    return this.request('prompts/get', { name, arguments: args }, options);
  }

  /**
   * Finds out whether the server answers.
   * @param {CallOptions} [options]
   * @returns {Promise<void>}
   */
  async ping(options = {}) {
    const link = await this.connect(options);
    await this.request(link.era === 'modern' ? 'server/discover' : 'ping', {}, options);
  }

  // ---- tasks ----

  /**
   * @param {string} taskId
   * @param {CallOptions} [options]
   * @returns {Promise<Task>}
   */
  getTask(taskId, options = {}) {
    return this.request('tasks/get', { taskId }, options);
  }

  /**
   * Waits for a task that was begun before, such as by a page that has been closed since.
   * @param {string} taskId
   * @param {CallOptions} [options]
   * @returns {Promise<ToolResult>}
   */
  async resumeTask(taskId, options = {}) {
    return this.#follow(await this.getTask(taskId, options), options);
  }

  /**
   * Answers questions of a task.
   * @param {string} taskId
   * @param {Record<string, any>} inputResponses answers by the names of the questions
   * @param {CallOptions} [options]
   * @returns {Promise<void>}
   */
  async updateTask(taskId, inputResponses, options = {}) {
    await this.request('tasks/update', { taskId, inputResponses }, options);
  }

  /**
   * Asks the server to stop a task; whether and when it does shows in its state.
   * @param {string} taskId
   * @param {CallOptions} [options]
   * @returns {Promise<void>}
   */
  async cancelTask(taskId, options = {}) {
    await this.request('tasks/cancel', { taskId }, options);
  }

  /**
   * Polls a task until it ends. An abort ends the task too; it outlives the page and a lost connection.
   * @param {Task} task
   * @param {CallOptions} options
   * @param {{method: string, name: string}} [request] that it came of
   * @returns {Promise<ToolResult>}
   */
  async #follow(task, options, request = { method: 'tasks/get', name: task.taskId }) {
    const taskId = task.taskId;
    const link = await this.connect();
    const asked = new Set();
    let reached = -Infinity;
    const signal = AbortSignal.any([this.#closing.signal, ...(options.signal ? [options.signal] : [])]);
    try {
      for (let failures = 0; ; ) {
        this.#tell(options.onTask, task);
        this.#tell(this.#options.onTask, task);
        reached = this.#progressOf(task, reached, options, request);
        if (task.status === 'completed') return /** @type {ToolResult} */ (task.result);
        if (task.status === 'failed' || task.status === 'cancelled') {
          const why = task.error?.message ?? task.statusMessage ?? 'the server does not say why';
          throw new MCPTaskError(`task ${taskId} ${task.status === 'failed' ? 'failed' : 'was cancelled'}: ${why}`, task);
        }
        const questions = Object.entries(task.inputRequests ?? {}).filter(([key]) => !asked.has(key));
        if (task.status === 'input_required' && questions.length) {
          const answers = await this.#answers(questions, signal);
          await this.updateTask(taskId, answers, options);
          for (const [key] of questions) asked.add(key);
        }
        const said = task.pollIntervalMs ?? 0;
        await MCPBrowserClient.#sleep(Math.max(said, options.pollIntervalMs ?? this.#options.pollIntervalMs ?? (said || 1000)), signal);
        try {
          task = await this.getTask(taskId, options);
          failures = 0;
        } catch (e) {
          // The task goes on without us; a look that failed says nothing about it.
          if (!MCPBrowserClient.#passes(e) || ++failures > MCPBrowserClient.#retries) throw e;
        }
      }
    } catch (e) {
      if (options.signal?.aborted) {
        this.#post(link, 'tasks/cancel', { taskId }, { timeoutMs: 10_000, parting: true }).catch(() => {}); // best effort: nobody waits for it any more
      }
      if (signal.aborted) throw signal.reason;
      if (!MCPBrowserClient.#passes(e)) throw e;
      throw new MCPTransportError(`task ${taskId} goes on and cannot be looked at: ${e.message}; resumeTask waits for it again`, { method: 'tasks/get', status: e.status, cause: e });
    }
  }

  /**
   * Tells of the progress of a call that has become a task, where the server says it in numbers.
   * @param {Task} task
   * @param {number} before what was told last
   * @param {CallOptions} options
   * @param {{method: string, name: string}} request
   * @returns {number} what is told now
   */
  #progressOf(task, before, options, request) {
    const said = task._meta?.['stoa/progress'];
    if (typeof said?.progress !== 'number' || said.progress <= before) return before;
    const progress = { ...said, ...(task.statusMessage && { message: task.statusMessage }) };
    this.#tell(options.onProgress, progress);
    this.#tell(this.#options.onProgress, progress, request);
    return said.progress;
  }

  // ---- subscriptions ----

  /**
   * Follows one resource.
   * @param {string} uri
   * @param {(params: JSONObject) => void} onUpdate
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<Subscription>}
   */
  subscribe(uri, onUpdate, options = {}) {
    return this.listen({ resourceSubscriptions: [uri] }, {
      ...options,
      onNotification: (method, params) => {
        if (method === 'notifications/resources/updated') onUpdate(params);
      },
    });
  }

  /**
   * Is told of changes until it is closed. A stream that breaks is opened again; what happened between is then
   * unknown, which onReopen tells.
   * @param {Filter} filter
   * @param {{signal?: AbortSignal, onNotification?: (method: string, params: JSONObject) => void, onReopen?: () => void}} [options]
   * @returns {Promise<Subscription>}
   */
  async listen(filter, options = {}) {
    const link = await this.connect(options);
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, this.#closing.signal, ...(options.signal ? [options.signal] : [])]);
    /** @type {PromiseWithResolvers<Filter>} */
    const ready = MCPBrowserClient.#deferred();
    const tell = (/** @type {string} */ method, /** @type {JSONObject} */ params) => this.#tell(options.onNotification, method, params);
    const again = () => this.#tell(options.onReopen);
    const run = link.era === 'modern' ? this.#listenModern(filter, tell, again, ready, signal) : this.#listenLegacy(filter, tell, again, ready, signal);
    const closed = run.catch((e) => {
      ready.reject(e);
      if (!signal.aborted) throw e;
    });
    closed.catch(() => {}); // whoever does not look at it does not care
    return { honoured: await ready.promise, closed, close: () => stop.abort() };
  }

  /**
   * @param {Filter} filter
   * @param {(method: string, params: JSONObject) => void} tell
   * @param {() => void} again
   * @param {PromiseWithResolvers<Filter>} ready
   * @param {AbortSignal} signal
   */
  async #listenModern(filter, tell, again, ready, signal) {
    let opened = false;
    for (let failures = 0; ; ) {
      try {
        await this.#post(await this.connect(), 'subscriptions/listen', { notifications: filter }, {
          signal,
          timeoutMs: 0,
          onMessage: (method, params) => {
            if (method !== 'notifications/subscriptions/acknowledged') return tell(method, params);
            failures = 0;
            if (opened) again();
            opened = true;
            ready.resolve(params.notifications ?? {});
          },
        });
      } catch (e) {
        if (signal.aborted) throw signal.reason;
        if (!opened || !MCPBrowserClient.#passes(e) || ++failures > MCPBrowserClient.#retries) throw e;
      }
      await MCPBrowserClient.#sleep(1000 * 2 ** failures, signal);
    }
  }

  /**
   * @param {Filter} filter
   * @param {(method: string, params: JSONObject) => void} tell
   * @param {() => void} again
   * @param {PromiseWithResolvers<Filter>} ready
   * @param {AbortSignal} signal
   */
  async #listenLegacy(filter, tell, again, ready, signal) {
    const uris = filter.resourceSubscriptions ?? [];
    for (const uri of uris) await this.request('resources/subscribe', { uri }, { signal });
    /** @type {PromiseWithResolvers<void>} */
    const end = MCPBrowserClient.#deferred();
    const listener = { filter, tell, again, fail: end.reject };
    const over = () => end.reject(signal.reason);
    signal.addEventListener('abort', over);
    if (signal.aborted) over();
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) {
      this.#hearing = new AbortController();
      this.#hear(AbortSignal.any([this.#hearing.signal, this.#closing.signal]), () => ready.resolve({ ...filter, taskIds: undefined }));
    } else {
      ready.resolve({ ...filter, taskIds: undefined });
    }
    try {
      await end.promise;
    } finally {
      signal.removeEventListener('abort', over);
      this.#listeners.delete(listener);
      if (!this.#listeners.size) this.#hearing.abort();
      const left = new Set([...this.#listeners].flatMap((l) => l.filter.resourceSubscriptions ?? []));
      for (const uri of uris.filter((u) => !left.has(u))) this.request('resources/unsubscribe', { uri }).catch(() => {}); // nobody hears it any more anyway
    }
  }

  /**
   * Reads the one stream of a legacy session for all who listen.
   * @param {AbortSignal} signal
   * @param {() => void} opened
   */
  async #hear(signal, opened) {
    let last = '';
    let first = true;
    for (let failures = 0; ; ) {
      try {
        const link = await this.connect();
        const response = await this.#get(link, last, signal);
        if (!first) for (const l of this.#listeners) l.again();
        first = false;
        failures = 0;
        opened();
        for await (const event of MCPBrowserClient.#events(response, this.#options.maxMessageChars)) {
          if (event.id !== undefined) last = event.id;
          if (event.data) this.#incoming(link, MCPBrowserClient.#parse(event.data, 'GET'), {}, signal);
        }
      } catch (e) {
        const lost = e instanceof MCPError && e.status === 404;
        if (signal.aborted || !(MCPBrowserClient.#passes(e) || lost) || ++failures > MCPBrowserClient.#retries) {
          for (const l of this.#listeners) l.fail(signal.aborted ? signal.reason : e);
          return;
        }
        if (lost) await this.#rejoin(signal).catch(() => {}); // the next attempt says what is wrong
        last = '';
      }
      await MCPBrowserClient.#sleep(1000 * 2 ** failures, signal).catch(() => {}); // connect tells that it is over
    }
  }

  /**
   * Opens a new session for those who listen.
   * @param {AbortSignal} signal
   */
  async #rejoin(signal) {
    this.#link = null;
    const uris = new Set([...this.#listeners].flatMap((l) => l.filter.resourceSubscriptions ?? []));
    for (const uri of uris) await this.request('resources/subscribe', { uri }, { signal });
  }

  // ---- requests ----

  /**
   * Sends any request and returns its result: the questions of the server have been answered, and a task has ended.
   * @param {string} method
   * @param {JSONObject} [params]
   * @param {CallOptions} [options]
   * @returns {Promise<any>}
   */
  async request(method, params = {}, options = {}) {
    /** @type {JSONObject} */
    let more = {};
    for (let round = 0; ; round++) {
      const result = await this.#send(method, { ...params, ...more }, options);
      switch (result.resultType ?? 'complete') {
        case 'complete':
          return result;
        case 'task':
          if (method !== 'tools/call') break;
          return this.#follow(result, options, { method, name: String(params.name ?? '') });
        case 'input_required':
          if (round >= this.#options.maxRounds) {
            throw new MCPError(`${method}: the server still asks after ${round} rounds of questions; raise maxRounds if that is right`, { method });
          }
          more = await this.#round(result, options);
          continue;
      }
      throw new MCPTransportError(`${method}: the server answered with a result of type ${JSON.stringify(result.resultType)}, which is unknown`, { method });
    }
  }

  /**
   * Sends a request, once more if the server has forgotten the session: it then has not begun with it.
   * @param {string} method
   * @param {JSONObject} params
   * @param {CallOptions} options
   */
  async #send(method, params, options) {
    const opened = this.connect(options);
    const link = await opened;
    try {
      return await this.#post(link, method, params, options);
    } catch (e) {
      if (!link.session || !(e instanceof MCPError) || e.status !== 404) throw e;
      const now = await this.#link?.catch(() => null);
      if (now === link) this.#link = null; // nobody else has opened a new one
      return this.#post(await this.connect(options), method, params, options);
    }
  }

  /**
   * Answers one round of questions.
   * @param {JSONObject} result
   * @param {CallOptions} options
   */
  async #round(result, options) {
    const signal = AbortSignal.any([this.#closing.signal, ...(options.signal ? [options.signal] : [])]);
    const questions = Object.entries(result.inputRequests ?? {});
    if (!questions.length) await MCPBrowserClient.#sleep(1000, signal); // the server only wants to be asked later
    /** @type {JSONObject} */
    const more = {};
    if (questions.length) more.inputResponses = await this.#answers(questions, signal);
    if (result.requestState !== undefined) more.requestState = result.requestState;
    return more;
  }

  /**
   * @param {[string, any][]} questions
   * @param {AbortSignal} signal
   * @returns {Promise<Record<string, any>>}
   */
  async #answers(questions, signal) {
    const answers = await Promise.all(questions.map(async ([key, q]) => [key, await this.#answer(q.method, q.params ?? {}, signal)]));
    return Object.fromEntries(answers);
  }

  /**
   * @param {string} method
   * @param {JSONObject} params
   * @param {AbortSignal} signal
   */
  async #answer(method, params, signal) {
    const { onElicitation, onSampling, onRoots } = this.#options;
    /** @type {Record<string, [Answerer|undefined, string]>} */
    const known = {
      'elicitation/create': [onElicitation, 'onElicitation'],
      'sampling/createMessage': [onSampling, 'onSampling'],
      'roots/list': [onRoots, 'onRoots'],
    };
    const [handler, option] = known[method] ?? [undefined, 'a handler'];
    if (!handler) throw new MCPError(`the server asks for ${method}, which this client was not told how to answer; give it ${option}`, { code: -32601, method });
    return handler(params, { signal });
  }

  /**
   * @param {string} method
   * @param {string} member
   * @param {CallOptions} options
   */
  async #list(method, member, options) {
    const all = [];
    /** @type {JSONObject} */
    let params = {};
    for (let page = 0; page < MCPBrowserClient.#maxPages; page++) {
      let result;
      try {
        result = await this.request(method, params, options);
      } catch (e) {
        if (page === 0 && e instanceof MCPError && e.code === -32601 && e.kind !== 'unknown_agent') return []; // it has no such list
        throw e;
      }
      if (!Array.isArray(result[member])) throw new MCPTransportError(`${method}: the answer has no ${member}`, { method });
      all.push(...result[member]);
      if (typeof result.nextCursor !== 'string') return all; // an empty one is a cursor too
      params = { cursor: result.nextCursor };
    }
    throw new MCPTransportError(`${method}: the list does not end within ${MCPBrowserClient.#maxPages} pages`, { method });
  }

  // ---- connection ----

  /**
   * Agrees with the server on the version of the protocol. Every request does so first; the answer is kept.
   * @param {CallOptions} [options]
   * @returns {Promise<Link>}
   */
  connect(options = {}) {
    if (this.#closing.signal.aborted) return Promise.reject(this.#closing.signal.reason);
    if (!this.#link) {
      const link = this.#open();
      link.catch(() => {
        if (this.#link === link) this.#link = null; // the next request tries again
      });
      this.#link = link;
    }
    return options.signal ? MCPBrowserClient.#unless(options.signal, this.#link) : this.#link;
  }

  async #open() {
    const { protocol } = this.#options;
    if (protocol === 'legacy') return this.#initialize();
    /** @type {Link} */
    const link = { era: 'modern', version: MCPBrowserClient.#modern, session: '', capabilities: {}, serverInfo: undefined, instructions: '' };
    try {
      const hello = await this.#post(link, 'server/discover', {}, {});
      if (hello.supportedVersions?.includes(link.version)) {
        return { ...link, capabilities: hello.capabilities ?? {}, serverInfo: hello._meta?.[MCPBrowserClient.#meta + 'serverInfo'], instructions: hello.instructions ?? '' };
      }
      if (protocol === 'modern') throw new MCPError(`the server does not speak version ${link.version}`, { code: -32022, method: 'server/discover' });
    } catch (e) {
      if (protocol === 'modern' || !MCPBrowserClient.#isLegacy(e)) throw e;
    }
    return this.#initialize();
  }

  /**
   * Whether a failed probe means that the server speaks the legacy era.
   * @param {unknown} e
   */
  static #isLegacy(e) {
    if (!(e instanceof MCPError) || e instanceof MCPTimeoutError || e.kind === 'unknown_agent') return false;
    if (e.code === -32022) return !e.data?.supported?.includes(MCPBrowserClient.#modern);
    if (e.code === -32020 || e.code === -32021) return false;
    return ![0, 401, 403, 429].includes(e.status) && e.status < 500;
  }

  /** @returns {Promise<Link>} */
  async #initialize() {
    /** @type {Link} */
    let link = { era: 'legacy', version: '', session: '', capabilities: {}, serverInfo: undefined, instructions: '' };
    let session = '';
    const params = { protocolVersion: MCPBrowserClient.#legacy[0], capabilities: this.#capabilities(), clientInfo: this.#clientInfo() };
    const hello = await this.#post(link, 'initialize', params, {
      onResponse: (response) => {
        session = response.headers.get('Mcp-Session-Id') ?? '';
      },
    });
    if (!MCPBrowserClient.#legacy.includes(hello.protocolVersion)) {
      throw new MCPError(`the server wants version ${JSON.stringify(hello.protocolVersion)} of the protocol, which this client does not speak`, { code: -32022, method: 'initialize' });
    }
    link = { ...link, session, version: hello.protocolVersion, capabilities: hello.capabilities ?? {}, serverInfo: hello.serverInfo, instructions: hello.instructions ?? '' };
    await this.#note(link, { method: 'notifications/initialized' });
    if (this.#options.logLevel && link.capabilities.logging) await this.#post(link, 'logging/setLevel', { level: this.#options.logLevel }, {});
    return link;
  }

  /** Ends what is under way, and the session if there is one. The client cannot be used afterwards. */
  async close() {
    const opened = this.#link;
    this.#link = null;
    this.#closing.abort(new MCPTransportError('the client is closed'));
    const link = await opened?.catch(() => null);
    if (!link?.session) return;
    const headers = await this.#headers(link, '', {});
    await fetch(this.url, { method: 'DELETE', headers, credentials: this.#credentials(), keepalive: true }).catch(() => {}); // the server forgets it in time
  }

  /** @returns {JSONObject} */
  #capabilities() {
    const { onElicitation, onSampling, onRoots, capabilities } = this.#options;
    return {
      ...(onElicitation && { elicitation: { form: {} } }),
      ...(onSampling && { sampling: {} }),
      ...(onRoots && { roots: {} }),
      ...capabilities,
    };
  }

  #clientInfo() {
    return this.#options.clientInfo ?? { name: 'MCPBrowserClient', version: '1.0.0' };
  }

  #credentials() {
    return this.#options.credentials ?? 'same-origin';
  }

  // ---- the wire ----

  /**
   * Sends one request and returns the result that answers it.
   * @param {Link} link
   * @param {string} method
   * @param {JSONObject} params
   * @param {CallOptions & {onMessage?: (method: string, params: JSONObject) => void, onResponse?: (r: Response) => void, parting?: boolean}} call parting: close does not end it
   * @returns {Promise<any>}
   */
  async #post(link, method, params, call) {
    const id = this.#next++;
    const late = new AbortController();
    const signal = AbortSignal.any([late.signal, ...(call.parting ? [] : [this.#closing.signal]), ...(call.signal ? [call.signal] : [])]);
    const patience = Math.min(call.timeoutMs ?? this.#options.timeoutMs, MCPBrowserClient.#longest);
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    let timer;
    const arm = () => {
      clearTimeout(timer);
      if (patience > 0) timer = setTimeout(() => late.abort(new MCPTimeoutError(`${method}: nothing came for ${patience} ms`, { method })), patience);
    };
    arm();
    try {
      signal.throwIfAborted();
      const body = JSON.stringify({ jsonrpc: '2.0', id, method, params: this.#params(link, id, params, call) });
      const headers = await this.#headers(link, method, params);
      const response = await this.#fetch(method, { method: 'POST', body, headers, signal, keepalive: call.parting === true });
      call.onResponse?.(response);
      const listener = {
        onMessage: call.onMessage,
        /** @param {any} p */
        onProgress: (p) => {
          if (p.progressToken !== id) return;
          arm();
          this.#tell(call.onProgress, p);
          this.#tell(this.#options.onProgress, p, { method, name: String(params.name ?? params.uri ?? '') });
        },
      };
      const answer = MCPBrowserClient.#isStream(response)
        ? await this.#stream(link, response, id, method, listener, signal)
        : await this.#whole(response, id, method);
      if (answer.error) {
        const { code, message, data } = answer.error;
        throw new MCPError(String(message), { code, data, method, status: response.status });
      }
      return answer.result;
    } catch (e) {
      if (!signal.aborted) throw e;
      if (link.era === 'legacy' && method !== 'initialize') {
        this.#note(link, { method: 'notifications/cancelled', params: { requestId: id } }).catch(() => {}); // best effort: it is over for us
      }
      throw signal.reason;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * @param {string} method
   * @param {RequestInit} init
   */
  async #fetch(method, init) {
    try {
      return await fetch(this.url, { ...init, credentials: this.#credentials() });
    } catch (e) {
      throw new MCPTransportError(`${method}: ${this.url} could not be reached; does it allow this page (auth.origins)?`, { method, cause: e });
    }
  }

  /**
   * Sends what has no answer: a notification, or an answer to the server.
   * @param {Link} link
   * @param {JSONObject} message
   */
  async #note(link, message) {
    const signal = AbortSignal.timeout(10_000);
    const response = await this.#fetch(message.method ?? 'response', {
      method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', ...message }), headers: await this.#headers(link, '', {}), signal,
      keepalive: message.method === 'notifications/cancelled',
    });
    await response.body?.cancel();
  }

  /**
   * @param {Link} link
   * @param {number} id
   * @param {JSONObject} params
   * @param {CallOptions} call
   */
  #params(link, id, params, call) {
    const meta = { ...params._meta, ...call.meta };
    if (call.onProgress || this.#options.onProgress) meta.progressToken = id;
    if (link.era === 'modern') {
      const capabilities = this.#capabilities();
      const own = MCPBrowserClient.#meta;
      meta[own + 'protocolVersion'] = link.version;
      meta[own + 'clientInfo'] = this.#clientInfo();
      meta[own + 'clientCapabilities'] = { ...capabilities, extensions: { [own + 'tasks']: {}, ...capabilities.extensions } };
      if (this.#options.logLevel) meta[own + 'logLevel'] = this.#options.logLevel;
    }
    return Object.keys(meta).length ? { ...params, _meta: meta } : params;
  }

  /**
   * @param {Link} link
   * @param {string} method
   * @param {JSONObject} params
   */
  async #headers(link, method, params) {
    const { headers, token } = this.#options;
    const out = new Headers(typeof headers === 'function' ? await headers() : headers);
    const secret = typeof token === 'function' ? await token() : token;
    if (secret) out.set('Authorization', 'Bearer ' + secret);
    out.set('Content-Type', 'application/json');
    out.set('Accept', 'application/json, text/event-stream');
    if (link.version) out.set('MCP-Protocol-Version', link.version);
    if (link.session) out.set('Mcp-Session-Id', link.session);
    if (link.era !== 'modern' || !method) return out;
    out.set('Mcp-Method', method);
    const name = { 'tools/call': params.name, 'prompts/get': params.name, 'resources/read': params.uri }[method] ?? (method.startsWith('tasks/') ? params.taskId : undefined);
    if (name !== undefined) out.set('Mcp-Name', MCPBrowserClient.#headerValue(String(name)));
    if (method !== 'tools/call') return out;
    for (const { header, path } of this.#mirrored.get(params.name) ?? []) {
      const value = path.reduce((v, step) => v?.[step], params.arguments);
      if (['string', 'number', 'boolean'].includes(typeof value)) out.set('Mcp-Param-' + header, MCPBrowserClient.#headerValue(String(value)));
    }
    return out;
  }

  /**
   * Reads an answer that is one JSON document.
   * @param {Response} response
   * @param {number} id
   * @param {string} method
   */
  async #whole(response, id, method) {
    let text = '';
    for await (const chunk of MCPBrowserClient.#chunks(response, method)) {
      text += chunk;
      if (text.length > this.#options.maxMessageChars) throw new MCPTransportError(`${method}: the answer is longer than maxMessageChars`, { method });
    }
    const status = response.status;
    /** @type {any} */
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      // What is no JSON is told below.
    }
    if (message?.error && typeof message.error === 'object') return message;
    if (!response.ok || message?.result === undefined || message.id !== id) {
      const said = text.trim().slice(0, 200);
      throw new MCPTransportError(`${method}: ${this.url} answered with status ${status} and no JSON-RPC result${said && ': ' + said}`, { method, status });
    }
    return message;
  }

  /**
   * Reads an event stream until the answer comes. One that breaks is taken up again where the protocol can.
   * @param {Link} link
   * @param {Response} response
   * @param {number} id
   * @param {string} method
   * @param {{onMessage?: (method: string, params: JSONObject) => void, onProgress?: (p: JSONObject) => void}} listener
   * @param {AbortSignal} signal
   */
  async #stream(link, response, id, method, listener, signal) {
    let last = '';
    let wait = 1000;
    let cause;
    for (let failures = 0; ; ) {
      try {
        for await (const event of MCPBrowserClient.#events(response, this.#options.maxMessageChars)) {
          if (event.id !== undefined) last = event.id;
          if (event.retry !== undefined) wait = event.retry;
          if (!event.data) continue;
          failures = 0;
          const message = MCPBrowserClient.#parse(event.data, method);
          if (message.id === id && message.method === undefined) return message;
          this.#incoming(link, message, listener, signal);
        }
      } catch (e) {
        if (!(e instanceof MCPTransportError) || signal.aborted) throw e;
        cause = e;
      }
      for (;;) {
        if (link.version !== MCPBrowserClient.#legacy[0] || !last || ++failures > MCPBrowserClient.#retries) {
          throw new MCPTransportError(`${method}: the connection ended before the answer came`, { method, cause });
        }
        await MCPBrowserClient.#sleep(wait, signal);
        try {
          response = await this.#get(link, last, signal);
          break;
        } catch (e) {
          if (signal.aborted) throw e;
          cause = e;
        }
      }
    }
  }

  /**
   * Opens a stream of the session, after the event of that id if there is one.
   * @param {Link} link
   * @param {string} last
   * @param {AbortSignal} signal
   */
  async #get(link, last, signal) {
    const headers = await this.#headers(link, '', {});
    headers.delete('Content-Type');
    headers.set('Accept', 'text/event-stream');
    if (last) headers.set('Last-Event-ID', last);
    const response = await this.#fetch('GET', { method: 'GET', headers, signal });
    if (MCPBrowserClient.#isStream(response)) return response;
    await response.body?.cancel();
    throw new MCPError(`the server has no stream to listen to: status ${response.status}`, { status: response.status, method: 'GET' });
  }

  /**
   * Takes a message that is not the answer: a notification, or a question of a legacy server.
   * @param {Link} link
   * @param {JSONObject} message
   * @param {{onMessage?: (method: string, params: JSONObject) => void, onProgress?: (p: JSONObject) => void}} listener
   * @param {AbortSignal} signal
   */
  #incoming(link, message, listener, signal) {
    const { id, method } = message;
    const params = message.params ?? {};
    if (typeof method !== 'string') return; // an answer to nothing we know
    if (id !== undefined) {
      if (link.era === 'legacy') this.#respond(link, id, method, params, signal);
      return;
    }
    if (method === 'notifications/progress') listener.onProgress?.(params);
    listener.onMessage?.(method, params);
    if (!listener.onMessage && !listener.onProgress) {
      for (const l of this.#listeners) if (MCPBrowserClient.#wants(l.filter, method, params)) l.tell(method, params);
    }
    this.#tell(this.#options.onNotification, method, params);
  }

  /**
   * @param {Link} link
   * @param {any} id
   * @param {string} method
   * @param {JSONObject} params
   * @param {AbortSignal} signal
   */
  async #respond(link, id, method, params, signal) {
    let answer;
    try {
      answer = { id, result: method === 'ping' ? {} : await this.#answer(method, params, signal) };
    } catch (e) {
      const code = e instanceof MCPError && e.code ? e.code : -32603;
      answer = { id, error: { code, message: e instanceof Error ? e.message : String(e) } };
    }
    await this.#note(link, answer).catch(() => {}); // the server's call then ends by its own time-out
  }

  /**
   * Calls what the page gave us; its mistakes are the page's, not the request's.
   * @template {any[]} A
   * @param {((...args: A) => void)|undefined} callback
   * @param {A} args
   */
  #tell(callback, ...args) {
    try {
      callback?.(...args);
    } catch (e) {
      setTimeout(() => {
        throw e; // for the page's own handling of errors
      });
    }
  }

  // ---- small parts ----

  /**
   * Whether a failure may pass by itself, so that it is worth trying again: a connection that broke, a server that is
   * just being started again behind a proxy, or one that has too much to do.
   * @param {any} e
   * @returns {e is MCPError}
   */
  static #passes(e) {
    if (e instanceof MCPTaskError) return false; // it is over
    if (e instanceof MCPTransportError || e instanceof MCPTimeoutError) return true;
    return e instanceof MCPError && ([429, 502, 503, 504].includes(e.status) || e.retryable);
  }

  /** @param {string} base */
  static #endpoint(base) {
    const url = new URL(base, globalThis.location?.href);
    let path = url.pathname.replace(/\/+$/, '');
    if (!path.endsWith('/mcp') || /\/mcps\/[^/]+$/.test(path)) path += '/mcp'; // an agent may be called mcp
    url.pathname = path;
    return url.href;
  }

  /** @param {string} s */
  static #headerValue(s) {
    if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(s) && !/^=\?base64\?.*\?=$/.test(s)) return s;
    const bytes = new TextEncoder().encode(s);
    return '=?base64?' + btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join('')) + '?=';
  }

  /**
   * The arguments that a tool wants repeated in headers; null if what it wants is not allowed.
   * @param {any} schema
   */
  static #bindings(schema) {
    /** @type {{header: string, path: string[]}[]} */
    const found = [];
    const taken = new Set();
    /** @type {(s: any, path: string[], reached: boolean, depth: number) => boolean} */
    const walk = (s, path, reached, depth) => {
      if (s === null || typeof s !== 'object' || depth > 64) return true;
      if (Array.isArray(s)) return s.every((e) => walk(e, path, false, depth + 1));
      const header = s['x-mcp-header'];
      if (header !== undefined) {
        const ok = reached && path.length && typeof header === 'string' && /^[\w!#$%&'*+.^`|~-]+$/.test(header);
        if (!ok || !['string', 'integer', 'boolean'].includes(s.type) || taken.has(header.toLowerCase())) return false;
        taken.add(header.toLowerCase());
        found.push({ header, path });
      }
      return Object.entries(s).every(([key, value]) => {
        if (['const', 'enum', 'default', 'examples', 'x-mcp-header'].includes(key)) return true;
        if (!['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'].includes(key)) return walk(value, path, false, depth + 1);
        return Object.entries(value ?? {}).every(([name, sub]) => walk(sub, [...path, name], reached && key === 'properties', depth + 1));
      });
    };
    return walk(schema, [], true, 0) ? found : null;
  }

  /**
   * @param {Filter} filter
   * @param {string} method
   * @param {JSONObject} params
   */
  static #wants(filter, method, params) {
    switch (method) {
      case 'notifications/tools/list_changed': return filter.toolsListChanged === true;
      case 'notifications/prompts/list_changed': return filter.promptsListChanged === true;
      case 'notifications/resources/list_changed': return filter.resourcesListChanged === true;
      case 'notifications/resources/updated': return filter.resourceSubscriptions?.includes(params.uri) === true;
    }
    return false;
  }

  /** @param {Response} response */
  static #isStream(response) {
    return response.ok && (response.headers.get('Content-Type') ?? '').startsWith('text/event-stream');
  }

  /**
   * @param {string} text
   * @param {string} method
   * @returns {JSONObject}
   */
  static #parse(text, method) {
    let message;
    try {
      message = JSON.parse(text);
    } catch (e) {
      throw new MCPTransportError(`${method}: an event is not JSON`, { method, cause: e });
    }
    if (message === null || typeof message !== 'object') throw new MCPTransportError(`${method}: an event is not a JSON-RPC message`, { method });
    return message;
  }

  /**
   * The text of a body as it comes.
   * @param {Response} response
   * @param {string} method
   */
  static async *#chunks(response, method) {
    if (!response.body) return;
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((e) => {
          throw new MCPTransportError(`${method}: the connection broke`, { method, cause: e });
        });
        if (done) return;
        yield decoder.decode(value, { stream: true });
      }
    } finally {
      MCPBrowserClient.#drain(reader);
    }
  }

  /**
   * Reads what is left of a body that nobody wants, for a moment: a connection whose answer has ended can be used again.
   * @param {ReadableStreamDefaultReader<Uint8Array>} reader
   */
  static async #drain(reader) {
    const stop = () => reader.cancel().catch(() => {}); // it may have ended meanwhile
    const timer = setTimeout(stop, 500);
    try {
      while (!(await reader.read()).done);
    } catch {
      // It broke, and nobody wanted it.
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * The events of a stream.
   * @param {Response} response
   * @param {number} limit
   * @returns {AsyncGenerator<{id?: string, retry?: number, data: string}>}
   */
  static async *#events(response, limit) {
    let rest = '';
    /** @type {{id?: string, retry?: number, data: string}} */
    let event = { data: '' };
    let lines = 0;
    for await (const chunk of MCPBrowserClient.#chunks(response, 'event stream')) {
      rest += chunk;
      // A CR at the end may be half of a CRLF.
      const whole = rest.split(/\r\n|\n|\r(?!$)/);
      rest = whole.pop() ?? '';
      if (rest.length + event.data.length > limit) throw new MCPTransportError('an event is longer than maxMessageChars');
      for (const line of whole) {
        if (line === '') {
          if (lines) yield event;
          event = { data: '' };
          lines = 0;
          continue;
        }
        const [, field, value] = /^([^:]*)(?::\u0020?(.*))?$/s.exec(line) ?? ['', '', ''];
        if (field === 'data') event.data += (event.data && '\n') + (value ?? '');
        else if (field === 'id') event.id = value ?? '';
        else if (field === 'retry' && /^\d+$/.test(value ?? '')) event.retry = Math.min(Number(value), MCPBrowserClient.#longest);
        if (field) lines++;
      }
    }
  }

  /**
   * @param {number} ms
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  static #sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const over = () => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        signal.removeEventListener('abort', over);
        resolve();
      }, Math.min(ms, MCPBrowserClient.#longest));
      signal.addEventListener('abort', over, { once: true });
    });
  }

  /**
   * Waits for a promise, unless the signal comes first.
   * @template T
   * @param {AbortSignal} signal
   * @param {Promise<T>} promise
   * @returns {Promise<T>}
   */
  static #unless(signal, promise) {
    return new Promise((resolve, reject) => {
      const over = () => reject(signal.reason);
      if (signal.aborted) return over();
      signal.addEventListener('abort', over, { once: true });
      promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', over));
    });
  }

  /** @template T @returns {PromiseWithResolvers<T>} */
  static #deferred() {
    /** @type {any} */
    const d = {};
    d.promise = new Promise((resolve, reject) => Object.assign(d, { resolve, reject }));
    return d;
  }
}

// For scripts that cannot import; the errors are members of the class.
Object.assign(globalThis, { MCPBrowserClient });

export { MCPBrowserClient, MCPError, MCPTransportError, MCPTimeoutError, MCPTaskError };
