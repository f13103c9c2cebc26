// The v2 TypeScript SDK (legacy unless told, 2026-07-28 with mode "auto") behind the interface that client.mjs drives.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

export async function connect(job, peer) {
  const options = { capabilities: peer.capabilities };
  if (job.mode !== 'legacy') options.versionNegotiation = { mode: job.mode };
  const client = new Client({ name: 'stoa-e2e-v2', version: '1.0.0' }, options);
  client.setRequestHandler('elicitation/create', request => peer.answer(request));
  client.setRequestHandler('sampling/createMessage', request => peer.answer(request));
  client.setRequestHandler('roots/list', request => peer.answer(request));
  client.setNotificationHandler('notifications/message', note => peer.log(note.params));
  client.setNotificationHandler('notifications/tools/list_changed', note => peer.hear?.(note.method));
  client.setNotificationHandler('notifications/resources/updated', note => peer.hear?.(note.method));

  const transport = job.url
    ? new StreamableHTTPClientTransport(new URL(job.url))
    : new StdioClientTransport({ command: job.command, args: job.args, env: job.env, stderr: 'inherit' });
  await client.connect(transport);
  const modern = client.getNegotiatedProtocolVersion() >= '2026-07-28';

  // Lists are fetched anew each time: what is tested is the hub, not the client's cache.
  const fresh = { cacheMode: 'bypass' };
  return {
    version: () => client.getNegotiatedProtocolVersion(),
    server: () => client.getServerVersion(),
    call: (params, options) => client.callTool(params, options),
    tools: params => client.listTools(params, fresh),
    level: level => (modern ? undefined : client.setLoggingLevel(level)), // a modern request says its own
    listen: uri =>
      modern ? client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] }) : client.subscribeResource({ uri }),
    resources: () => client.listResources(undefined, fresh),
    read: params => client.readResource(params, fresh),
    prompts: () => client.listPrompts(undefined, fresh),
    prompt: params => client.getPrompt(params),
    close: () => client.close(),
  };
}
