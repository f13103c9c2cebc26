// The pages, in the order of the bar. Each is {path, title, view}; view gets
// what follows its path in the address, and the query.
import { Servers } from './servers.js';

export const pages = [
  { path: 'servers', title: 'Servers', view: Servers },
];
