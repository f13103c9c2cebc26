// A server of the matrix of eras, made with a TypeScript SDK.
//
//   node matrix-server.mjs '{"sdk":"v2","era":"modern","transport":"http","state":"…","uri":"mem://a"}'
//
// Over HTTP it prints the address on stdout as {"url":"…"}. What happens to it goes to the state file, as lines such as
// "called slow". Its tools are those of the Go package matrix, where their meaning is.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { getRequestListener } from '@hono/node-server';

const job = JSON.parse(process.argv[2]);
const { serve } = await import(`./server-${job.sdk}.mjs`);

const extra = [];
const gated = new Set();
let visits = 0;
let version = 0;
const note = line => appendFileSync(job.state, line + '\n');
const fail = (code, message, data) => Object.assign(new Error(message), { code, data });
const form = {
  mode: 'form',
  message: 'Who?',
  requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
};
const there = () => ({
  mode: 'url',
  url: 'https://login.example/',
  message: 'Please log in',
  ...(job.era === 'legacy' && { elicitationId: `visit-${++visits}` }),
});
const say = value => (typeof value === 'string' ? value : JSON.stringify(value));

// Each tool gets its arguments and what belongs to the call; what it returns is the text of its result.
const steps = pace => async (_, call) => {
  for (let i = 1; i <= 3; i++) {
    await call.progress({ progress: i, total: 3 });
    await call.log('info', `step ${i} of 3`);
    if (pace) await pause(pace);
  }
  return 'done';
};
const tools = {
  echo: args => args,
  steps: steps(0),
  paced: steps(10),
  slow: async (_, { signal }) => {
    note('called slow');
    if (!signal.aborted) await once(signal, 'abort');
    note('cancelled slow');
    throw new Error('cancelled');
  },
  multi: async (_, call) => {
    const answers = [];
    while (answers.length < 3) answers.push(await call.ask('elicitation/create', form));
    return answers;
  },
  visit: (_, call) => call.ask('elicitation/create', there()),
  gate: args => {
    const key = JSON.stringify(args);
    if (gated.delete(key)) return 'welcome';
    gated.add(key);
    throw fail(-32042, 'log in first', { elicitations: [there()] });
  },
  sample: (_, call) =>
    call.ask('sampling/createMessage', { maxTokens: 16, messages: [{ role: 'user', content: { type: 'text', text: 'Say hello' } }] }),
  roots: (_, call) => call.ask('roots/list', {}),
  grow: (_, call) => {
    extra.push(`extra_${extra.length + 1}`);
    call.toolsChanged();
    return extra.at(-1);
  },
  touch: (_, call) => {
    call.updated(job.uri);
    return `version ${++version}`;
  },
  rude: () => {
    throw fail(-31999, 'no', { n: 7, x: ['a', null] });
  },
};

const offer = {
  era: job.era,
  uri: job.uri,
  names: () => [...Object.keys(tools), ...extra],
  call: async (name, args, call) => say(await (tools[name] ?? tools.echo)(args, call)),
};

// What serve returns answers web requests; over stdio there is nothing to return.
const fetch = await serve(offer, job.transport);
if (fetch) {
  const http = createServer(getRequestListener(fetch));
  http.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ url: `http://127.0.0.1:${http.address().port}/mcp` })));
}
