// Has a conversation through `stoa stdio` with a real client while the hub behind it is killed again and again, and
// prints, as one line of JSON, what the client saw.
//
//   node kills.mjs '{"sdk":"v1","command":"…","args":[…],"env":{…},"data":"…","tool":"…","calls":200,"every":10}'
//
// Every so many calls the process that hub.json of the data folder names gets SIGKILL right after a call was sent.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const job = JSON.parse(process.argv[2]);
const { connect } = await import(`./sdk-${job.sdk}.mjs`);
const hub = async () => JSON.parse(await readFile(join(job.data, 'hub.json'), 'utf8')).pid;

const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
const client = await connect(job, { capabilities, log: () => {}, answer: () => { throw new Error('nobody asks'); } });
const report = { calls: [], kills: 0 };

// A hub starts its upstreams in the background, so the tool may be absent from the first lists.
for (const end = Date.now() + 60_000; ; await pause(50)) {
  const { tools } = await client.tools();
  if (tools.some(tool => tool.name === job.tool)) break;
  if (Date.now() > end) throw new Error(`${job.tool} is not listed in time`);
}

for (let i = 1; i <= job.calls; i++) {
  const call = client.call({ name: job.tool, arguments: {} }, {}).then(
    result => ({ text: result.content?.[0]?.text }),
    error => ({ error: { code: error.code, message: error.message, data: error.data } }),
  );
  const killed = i % job.every === 0;
  if (killed) {
    process.kill(await hub(), 'SIGKILL');
    report.kills++;
  }
  report.calls.push({ ...(await call), killed });
}
await client.tools();
await client.close();
console.log(JSON.stringify(report));
