// The v2 TypeScript SDK as the server that matrix-server.mjs describes, in one era. The package comes with the
// conformance suite and is pinned by the same lock file.
import { createMcpHandler, Server, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { capabilities, sessionful } from './server-parts.mjs';

const sessions = new Map(); // legacy: by server, what it subscribed to
let notify; // modern over HTTP: tells all who listen

// Question is thrown by ask where the era has no questions but in answers.
class Question {
  constructor(request) {
    this.request = request;
  }
}

// replay answers what has been answered in earlier rounds and throws the next question.
function replay(req) {
  const answers = JSON.parse(req.requestState() ?? '[]');
  if (req.inputResponses?.q) answers.push(req.inputResponses.q);
  let next = 0;
  return {
    ask: (method, params) => {
      if (next < answers.length) return answers[next++];
      throw new Question({ method, params });
    },
    rounds: () => JSON.stringify(answers),
  };
}

function changes(offer, server) {
  if (offer.era === 'legacy') {
    return {
      toolsChanged: () => sessions.forEach((_, to) => to.sendToolListChanged().catch(() => {})),
      updated: uri => sessions.forEach((uris, to) => uris.has(uri) && to.sendResourceUpdated({ uri }).catch(() => {})),
    };
  }
  return {
    toolsChanged: () => (notify ? notify.toolsChanged() : server.sendToolListChanged()),
    updated: uri => (notify ? notify.resourceUpdated(uri) : server.sendResourceUpdated({ uri })),
  };
}

function make(offer) {
  const server = new Server({ name: 'v2', version: '1.0.0' }, { capabilities });
  server.setRequestHandler('tools/list', () => ({
    tools: offer.names().map(name => ({ name, inputSchema: { type: 'object' } })),
  }));
  server.setRequestHandler('resources/list', () => ({ resources: [{ uri: offer.uri, name: 'a' }] }));
  server.setRequestHandler('resources/read', () => ({ contents: [{ uri: offer.uri, text: 'a' }] }));
  if (offer.era === 'legacy') {
    const subscribed = new Set();
    sessions.set(server, subscribed);
    server.setRequestHandler('resources/subscribe', ({ params }) => (subscribed.add(params.uri), {}));
    server.setRequestHandler('resources/unsubscribe', ({ params }) => (subscribed.delete(params.uri), {}));
    server.onclose = () => sessions.delete(server);
  }
  server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
    const asking = offer.era === 'modern' ? replay(mcpReq) : { ask: (method, params) => mcpReq.send({ method, params }) };
    try {
      const text = await offer.call(params.name, params.arguments ?? {}, {
        signal: mcpReq.signal,
        ask: asking.ask,
        progress: p =>
          mcpReq.notify({ method: 'notifications/progress', params: { ...p, progressToken: mcpReq._meta.progressToken } }),
        log: (level, data) => mcpReq.log(level, data),
        ...changes(offer, server),
      });
      return { content: [{ type: 'text', text }] };
    } catch (thrown) {
      if (!(thrown instanceof Question)) throw thrown;
      return { resultType: 'input_required', inputRequests: { q: thrown.request }, requestState: asking.rounds() };
    }
  });
  return server;
}

function serveModern(offer, transport) {
  if (transport === 'stdio') {
    serveStdio(() => make(offer), { legacy: 'reject' });
    return;
  }
  const handler = createMcpHandler(() => make(offer), { legacy: 'reject' });
  notify = handler.notify;
  return handler.fetch;
}

export async function serve(offer, transport) {
  if (offer.era === 'modern') return serveModern(offer, transport);
  if (transport === 'stdio') {
    await make(offer).connect(new StdioServerTransport());
    return;
  }
  return sessionful(() => make(offer), WebStandardStreamableHTTPServerTransport);
}
