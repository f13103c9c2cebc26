// Runs one job with a real MCP client and prints, as one line of JSON, what the client saw.
//
//   node client.mjs '{"sdk":"v1","mode":"legacy","url":"…","steps":[{"op":"call","params":{…}}]}'
//
// A job names the SDK, the target (url, or command/args/env), the answers to give when the server asks
// (elicit, sample, roots) and the steps. It holds no expectation: the Go test that wrote the job judges.
import { setTimeout as pause } from 'node:timers/promises';

const job = JSON.parse(process.argv[2]);
const { connect } = await import(`./sdk-${job.sdk}.mjs`);

// What happens while a step runs is kept in order of arrival, so that a test can see a notification that overtakes.
let seen = [];

const peer = {
  capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
  log: params => seen.push({ kind: 'log', level: params.level, data: params.data }),
  answer(request) {
    seen.push({ kind: 'asked', method: request.method, message: request.params?.message });
    switch (request.method) {
      case 'elicitation/create':
        return { action: 'accept', content: job.elicit };
      case 'sampling/createMessage':
        return { role: 'assistant', model: 'stoa-e2e', content: { type: 'text', text: job.sample } };
      case 'roots/list':
        return { roots: job.roots ?? [] };
    }
    throw new Error(`no answer for ${request.method}`);
  },
};

// A hub starts its upstreams in the background, so a tool may be absent from the first lists.
async function awaitTools(client, names, deadlineMs) {
  const end = Date.now() + deadlineMs;
  for (;;) {
    const { tools } = await client.tools();
    const have = new Set(tools.map(tool => tool.name));
    const missing = names.filter(name => !have.has(name));
    if (missing.length === 0) return { tools };
    if (Date.now() > end) throw new Error(`tools not listed in time: ${missing.join(', ')}; listed: ${[...have].join(', ')}`);
    await pause(50);
  }
}

const operations = {
  awaitTools: (client, step) => awaitTools(client, step.names, step.deadlineMs),
  tools: client => client.tools(),
  call: (client, step) =>
    client.call(step.params, step.progress ? { onprogress: p => seen.push({ kind: 'progress', ...p }) } : {}),
  resources: client => client.resources(),
  read: (client, step) => client.read(step.params),
  prompts: client => client.prompts(),
  prompt: (client, step) => client.prompt(step.params),
};

async function run(client, step) {
  seen = [];
  try {
    const result = await operations[step.op](client, step);
    return { result, seen };
  } catch (error) {
    return { error: { code: error.code, message: error.message, data: error.data }, seen };
  }
}

const client = await connect(job, peer);
const report = { version: client.version(), server: client.server(), steps: [] };
for (const step of job.steps) report.steps.push(await run(client, step));
await client.close();
console.log(JSON.stringify(report));
