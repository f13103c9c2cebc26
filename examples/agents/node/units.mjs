#!/usr/bin/env node
// An agent in JavaScript without any package: MCP is JSON-RPC, one message a
// line. It speaks the versions of the protocol that begin with a handshake; the
// hub translates for clients that speak newer ones. Nothing but messages may go
// to stdout; console.error is for what people should see.

import { createInterface } from "node:readline";

const perMetre = { m: 1, km: 1e-3, mi: 1 / 1609.344, ft: 1 / 0.3048, in: 1 / 0.0254 };

const tools = [
  {
    name: "convert",
    description: "Converts a length from one unit into another.",
    inputSchema: {
      type: "object",
      properties: {
        value: { type: "number" },
        from: { type: "string", enum: Object.keys(perMetre) },
        to: { type: "string", enum: Object.keys(perMetre) },
      },
      required: ["value", "from", "to"],
      additionalProperties: false,
    },
  },
  {
    name: "table",
    description: "Converts 1 to n, and tells how far it is.",
    inputSchema: {
      type: "object",
      properties: {
        n: { type: "integer", minimum: 1, maximum: 100 },
        from: { type: "string", enum: Object.keys(perMetre) },
        to: { type: "string", enum: Object.keys(perMetre) },
      },
      required: ["n", "from", "to"],
      additionalProperties: false,
    },
  },
];

class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const text = (t, isError) => ({ content: [{ type: "text", text: t }], ...(isError && { isError }) });
const convert = (value, from, to) => Number(((value / perMetre[from]) * perMetre[to]).toPrecision(10));

function call({ name, arguments: args = {}, _meta = {} }) {
  const { value, n, from, to } = args;
  if (name !== "convert" && name !== "table") throw new Refused(-32602, `unknown tool ${name}`);
  // What the caller can repair is a result, so that its model sees it.
  if (!(from in perMetre) || !(to in perMetre)) return text(`units are ${Object.keys(perMetre).join(", ")}`, true);
  if (name === "convert") return text(`${convert(value, from, to)} ${to}`);
  const lines = [];
  for (let i = 1; i <= n; i++) {
    lines.push(`${i} ${from} = ${convert(i, from, to)} ${to}`);
    if (_meta.progressToken !== undefined) {
      send({ method: "notifications/progress", params: { progressToken: _meta.progressToken, progress: i, total: n } });
    }
  }
  return text(lines.join("\n"));
}

const known = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion: known.includes(protocolVersion) ? protocolVersion : known.at(-1),
    capabilities: { tools: {} },
    serverInfo: { name: "units", version: "1.0.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools }),
  "tools/call": call,
};

for await (const line of createInterface({ input: process.stdin })) {
  let message;
  try {
    message = JSON.parse(line);
  } catch (err) {
    send({ id: null, error: { code: -32700, message: `not JSON: ${err.message}` } });
    continue;
  }
  if (message?.id === undefined || !message.method) continue; // it wants no answer
  try {
    const method = Object.hasOwn(methods, message.method) && methods[message.method];
    if (!method) throw new Refused(-32601, `unknown method ${message.method}`);
    send({ id: message.id, result: method(message.params ?? {}) });
  } catch (err) {
    send({ id: message.id, error: { code: err.code ?? -32603, message: err.message } });
  }
}
