// The v1 TypeScript SDK (2025-11-25) behind the small interface that client.mjs drives.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

// pin has the client ask for an older version than its newest, which the SDK itself has no option for.
function pin(transport, protocolVersion) {
  const send = transport.send.bind(transport);
  transport.send = (message, options) =>
    send(message.method === 'initialize' ? { ...message, params: { ...message.params, protocolVersion } } : message, options);
}

export async function connect(job, peer) {
  const client = new Client({ name: 'stoa-e2e-v1', version: '1.0.0' }, { capabilities: peer.capabilities });
  client.setRequestHandler(ElicitRequestSchema, request => peer.answer(request));
  client.setRequestHandler(CreateMessageRequestSchema, request => peer.answer(request));
  client.setRequestHandler(ListRootsRequestSchema, request => peer.answer(request));
  client.setNotificationHandler(LoggingMessageNotificationSchema, note => peer.log(note.params));
  client.setNotificationHandler(ToolListChangedNotificationSchema, note => peer.hear?.(note.method));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, note => peer.hear?.(note.method));

  const transport = job.url?.startsWith('ws:')
    ? new WebSocketClientTransport(new URL(job.url))
    : job.url
    ? new StreamableHTTPClientTransport(new URL(job.url))
    : new StdioClientTransport({ command: job.command, args: job.args, env: job.env, stderr: 'inherit' });
  // The SDK keeps the negotiated version on the transport only, and only the HTTP one lets it be read back.
  let version;
  const tell = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = value => {
    version = value;
    tell?.(value);
  };
  if (job.version) pin(transport, job.version);
  await client.connect(transport);

  return {
    version: () => version,
    server: () => client.getServerVersion(),
    call: (params, options) => client.callTool(params, undefined, options),
    tools: params => client.listTools(params),
    level: level => client.setLoggingLevel(level),
    listen: uri => client.subscribeResource({ uri }),
    resources: () => client.listResources(),
    read: params => client.readResource(params),
    prompts: () => client.listPrompts(),
    prompt: params => client.getPrompt(params),
    close: () => client.close(),
  };
}
