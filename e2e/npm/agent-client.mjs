// The agent-to-agent client of the router's specification: plain fetch, no Accept header, no MCP session,
// no initialize, and a bearer token that may be undefined. Peers written this way exist and must be served.
//
//   ROUTER_HOST=… ROUTER_PORT=… node agent-client.mjs '[{"method":"listTools","args":["agent"]}]'

class MCPError extends Error {
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

const wire = [];

class AgentMcpClient {
  constructor(options = {}) {
    this.routerHost = options.routerHost || process.env.ROUTER_HOST || 'localhost';
    this.routerPort = options.routerPort || process.env.ROUTER_PORT || 8088;
    this.authToken = options.authToken || process.env.AGENT_TOKEN;
  }

  getAgentUrl(agentName) {
    return `http://${this.routerHost}:${this.routerPort}/mcps/${agentName}/mcp`;
  }

  async request(agentName, method, params) {
    const url = this.getAgentUrl(agentName);
    const request = {
      jsonrpc: '2.0',
      id: crypto.randomUUID(),
      method,
      params
    };

    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'Authorization': `Bearer ${this.authToken}`
      },
      body: JSON.stringify(request)
    });
    wire.push({ status: response.status, type: response.headers.get('content-type'), id: request.id });

    const data = await response.json();
    wire.at(-1).answered = data.id;

    if (data.error) {
      throw new MCPError(data.error.code, data.error.message, data.error.data);
    }

    return data.result;
  }

  async listTools(agentName) {
    const result = await this.request(agentName, 'tools/list', {});
    return result.tools;
  }

  async callTool(agentName, toolName, args) {
    const result = await this.request(agentName, 'tools/call', {
      name: toolName,
      arguments: args
    });
    return result;
  }

  async listResources(agentName) {
    const result = await this.request(agentName, 'resources/list', {});
    return result.resources;
  }

  async readResource(agentName, uri) {
    const result = await this.request(agentName, 'resources/read', { uri });
    return result.contents[0]?.text;
  }
}

const client = new AgentMcpClient();
const steps = [];
for (const { method, args } of JSON.parse(process.argv[2])) {
  try {
    steps.push({ result: await client[method](...args) });
  } catch (error) {
    steps.push({ error: { code: error.code, message: error.message, data: error.data } });
  }
}
console.log(JSON.stringify({ steps, wire }));
