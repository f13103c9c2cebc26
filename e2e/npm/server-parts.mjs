// What the servers of both SDKs have in common.
import { randomUUID } from 'node:crypto';

export const capabilities = { tools: { listChanged: true }, resources: { listChanged: true, subscribe: true }, logging: {} };
export const levels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

// sessionful answers the web requests of a legacy server that has sessions, each with a server of its own.
export function sessionful(make, Transport) {
  const open = new Map();
  return async request => {
    const id = request.headers.get('mcp-session-id');
    if (id) return open.get(id)?.handleRequest(request) ?? new Response('no such session', { status: 404 });
    const session = new Transport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => void open.set(id, session),
      onsessionclosed: id => void open.delete(id),
    });
    await make().connect(session);
    return session.handleRequest(request);
  };
}
