// The v1 TypeScript SDK (2025-11-25) as the server that matrix-server.mjs describes.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import {
  CallToolRequestSchema,
  CreateMessageResultSchema,
  ElicitResultSchema,
  ListResourcesRequestSchema,
  ListRootsResultSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
  SetLevelRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { capabilities, levels, sessionful } from './server-parts.mjs';

const results = {
  'elicitation/create': ElicitResultSchema,
  'sampling/createMessage': CreateMessageResultSchema,
  'roots/list': ListRootsResultSchema,
};
const sessions = new Map(); // by server: what it subscribed to

function make(offer) {
  const server = new Server({ name: 'v1', version: '1.0.0' }, { capabilities });
  const subscribed = new Set();
  let level = 'info';
  sessions.set(server, subscribed);
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: offer.names().map(name => ({ name, inputSchema: { type: 'object' } })),
  }));
  server.setRequestHandler(ListResourcesRequestSchema, () => ({ resources: [{ uri: offer.uri, name: 'a' }] }));
  server.setRequestHandler(ReadResourceRequestSchema, () => ({ contents: [{ uri: offer.uri, text: 'a' }] }));
  server.setRequestHandler(SubscribeRequestSchema, ({ params }) => (subscribed.add(params.uri), {}));
  server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => (subscribed.delete(params.uri), {}));
  // The SDK's own log goes by no call's stream; this one stays with its call.
  server.setRequestHandler(SetLevelRequestSchema, ({ params }) => ((level = params.level), {}));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const text = await offer.call(params.name, params.arguments ?? {}, {
      signal: extra.signal,
      ask: (method, params) => extra.sendRequest({ method, params }, results[method]),
      progress: p =>
        extra.sendNotification({ method: 'notifications/progress', params: { ...p, progressToken: extra._meta.progressToken } }),
      log: async (at, data) => {
        if (levels.indexOf(at) < levels.indexOf(level)) return;
        await extra.sendNotification({ method: 'notifications/message', params: { level: at, data } });
      },
      toolsChanged: () => sessions.forEach((_, to) => to.sendToolListChanged().catch(() => {})),
      updated: uri =>
        sessions.forEach((uris, to) => uris.has(uri) && to.sendResourceUpdated({ uri }).catch(() => {})),
    });
    return { content: [{ type: 'text', text }] };
  });
  server.onclose = () => sessions.delete(server);
  return server;
}

export async function serve(offer, transport) {
  if (transport === 'stdio') {
    await make(offer).connect(new StdioServerTransport());
    return;
  }
  return sessionful(() => make(offer), WebStandardStreamableHTTPServerTransport);
}
