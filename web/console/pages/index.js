// The pages, in the order of the bar. Each is {path, title, view}; view gets
// what follows its path in the address, and the query.
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
  { path: '', title: 'Home', view: Home },
  { path: 'live', title: 'Live', view: Live },
  { path: 'tools', title: 'Tools', view: Tools },
  { path: 'servers', title: 'Servers', view: Servers },
  { path: 'agents', title: 'Agents', view: Agents },
  { path: 'context', title: 'Context', view: Context },
  { path: 'plans', title: 'Plans', view: Plans },
  { path: 'chat', title: 'Chat', view: Chat },
  { path: 'errors', title: 'Errors', view: Errors },
  { path: 'logs', title: 'Logs', view: Logs },
  { path: 'sessions', title: 'Sessions', view: Sessions },
  { path: 'settings', title: 'Settings', view: Settings },
];
