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

  const transport = job.url
    ? new StreamableHTTPClientTransport(new URL(job.url))
    : new StdioClientTransport({ command: job.command, args: job.args, env: job.env, stderr: 'inherit' });
  await client.connect(transport);

  // Lists are fetched anew each time: what is tested is the hub, not the client's cache.
  const fresh = { cacheMode: 'bypass' };
  return {
    version: () => client.getNegotiatedProtocolVersion(),
    server: () => client.getServerVersion(),
    call: (params, options) => client.callTool(params, options),
    tools: () => client.listTools(undefined, fresh),
    resources: () => client.listResources(undefined, fresh),
    read: params => client.readResource(params, fresh),
    prompts: () => client.listPrompts(undefined, fresh),
    prompt: params => client.getPrompt(params),
    close: () => client.close(),
  };
}
