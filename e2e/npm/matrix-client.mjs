// Clients of the TypeScript SDKs for the matrix of eras, driven by commands: one JSON object per line on stdin, one
// answer per line on stdout.
//
//   {"op":"connect","sdk":"v1","mode":"legacy","url":"…"}  →  {"result":{"id":0,"version":"2025-11-25"}}
//
// It holds no expectation: the Go test that writes the commands judges.
import { createInterface } from 'node:readline';

const clients = [];

class MatrixClient {
  last = {};
  counts = {};
  level = undefined;
  begun = undefined;

  // What every client of the matrix declares and answers.
  capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
  log = params => this.last.logs.push(String(params.data));
  hear = method => (this.counts[method] = (this.counts[method] ?? 0) + 1);

  answer(request) {
    const { mode, message, url } = request.params ?? {};
    this.last.asked.push({ method: request.method, mode, message, url });
    switch (request.method) {
      case 'sampling/createMessage':
        return { role: 'assistant', model: 'm', content: { type: 'text', text: 'forty-two' } };
      case 'roots/list':
        return { roots: [{ uri: 'file:///colonnade', name: 'colonnade' }] };
    }
    if (mode === 'url') return { action: 'accept' };
    return { action: 'accept', content: { name: `Ada ${this.last.asked.length}` } };
  }

  async connect(job) {
    const { connect } = await import(`./sdk-${job.sdk}.mjs`);
    this.client = await connect(job, this);
    return { version: this.client.version() };
  }

  params(name, args) {
    const params = { name, arguments: JSON.parse(args) };
    if (this.level) params._meta = { 'io.modelcontextprotocol/logLevel': this.level };
    return params;
  }

  async call({ tool, args }) {
    const outcome = (this.last = { asked: [], progress: [], logs: [] });
    try {
      const result = await this.client.call(this.params(tool, args), { onprogress: p => outcome.progress.push(p.progress) });
      outcome.text = result.content?.[0]?.text;
      outcome.isError = result.isError;
    } catch (error) {
      if (!Number.isInteger(error.code)) throw error;
      outcome.code = error.code;
      outcome.data = JSON.stringify(error.data);
    }
    return outcome;
  }

  begin({ tool }) {
    const given = new AbortController();
    const done = this.client.call(this.params(tool, '{}'), { signal: given.signal }).catch(() => {});
    this.begun = { given, done };
  }

  async leave() {
    this.begun.given.abort('enough');
    await this.begun.done;
  }

  async setLevel({ level }) {
    this.level = level;
    await this.client.level(level);
  }

  async listen({ uri }) {
    await this.client.listen(uri);
  }

  async tools() {
    const names = [];
    for (let cursor; ; ) {
      const page = await this.client.tools(cursor === undefined ? undefined : { cursor });
      names.push(...page.tools.map(tool => tool.name));
      cursor = page.nextCursor;
      if (cursor === undefined) return names;
    }
  }

  async close() {
    await this.client.close();
  }
}

const ops = {
  connect: async command => {
    const client = new MatrixClient();
    const { version } = await client.connect(command);
    return { id: clients.push(client) - 1, version };
  },
  last: command => clients[command.client].last,
  heard: command => clients[command.client].counts[command.method] ?? 0,
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    const op = ops[command.op] ?? (c => clients[c.client][c.op](c));
    answer = { result: (await op(command)) ?? null };
  } catch (error) {
    answer = { error: String(error.stack ?? error) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
