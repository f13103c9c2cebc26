// The pages, in the order of the bar. Each is {path, title, view, depth}; view
// gets what follows its path in the address, at most depth parts, and the query.
import { Home } from './home.js';
import { Live } from './live.js';
import { Tools } from './tools.js';
import { Servers } from './servers.js';
import { Agents } from './agents.js';
import { Context } from './context.js';
import { Plans } from './plans.js';
import { Chat } from './chat.js';
import { Errors } from './errors.js';
import { Logs } from './logs.js';
import { Sessions } from './sessions.js';
import { Settings } from './settings.js';

export const pages = [
  { path: '', title: 'Home', view: Home, depth: 0 },
  { path: 'live', title: 'Live', view: Live, depth: 2 },
  { path: 'tools', title: 'Tools', view: Tools, depth: 1 },
  { path: 'servers', title: 'Servers', view: Servers, depth: 1 },
  { path: 'agents', title: 'Agents', view: Agents, depth: 1 },
  { path: 'context', title: 'Context', view: Context, depth: 2 },
  { path: 'plans', title: 'Plans', view: Plans, depth: 1 },
  { path: 'chat', title: 'Chat', view: Chat, depth: 1 },
  { path: 'errors', title: 'Errors', view: Errors, depth: 2 },
  { path: 'logs', title: 'Logs', view: Logs, depth: 0 },
  { path: 'sessions', title: 'Sessions', view: Sessions, depth: 0 },
  { path: 'settings', title: 'Settings', view: Settings, depth: 0 },
];
