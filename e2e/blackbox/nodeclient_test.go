package blackbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// B18: an agent in Node calls others, and passes on what its calls come of: one that
// runs a single call at a time can call itself.
func TestNodeAgentCarriesTheChain(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	switch {
	case err != nil && os.Getenv("STOA_E2E") == "require":
		t.Fatal("there is no node: install Node 18 or newer")
	case err != nil:
		t.Skip("there is no node")
	}
	client, err := os.ReadFile(filepath.Join(repository, "examples", "agents", "node", "agentclient.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	script := filepath.Join(folder, "ask.mjs")
	const text = `import { AgentClient, AgentError, chainFrom, chainFromEnv } from './agentclient.mjs';
const client = new AgentClient();
const tools = (await client.listTools('noder')).map((tool) => tool.name).sort().join(' ');
const result = await client.callTool('noder', 'work', {}, { priority: 'high', timeoutMs: 20000 });
const chained = JSON.stringify(chainFrom({ ...chainFromEnv(), other: 1 })) === JSON.stringify(chainFromEnv());
let refused = '';
try {
  await client.callTool('nobody', 'work');
} catch (e) {
  refused = e instanceof AgentError ? e.kind : String(e);
}
console.log(tools, '|', result.content[0].text.trim(), '|', chained, '|', refused);
`
	for name, content := range map[string]string{script: text, filepath.Join(folder, "agentclient.mjs"): string(client)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	manifest := fmt.Sprintf(`agent: 1
name: noder
tools:
  work: {command: [echo, worked]}
  ask: {command: [%q, %q], env: {AGENT_TOKEN: "${STOA_TOKEN}"}, timeoutMs: 25000}
`, node, script)
	h := serve(t, object{})
	agent(t, manifest, []string{"STOA_TOKEN=" + h.owner}, "--register", "http://"+h.address)
	await.Until(t, "the agent is there", func() bool {
		_, done := h.tool(t, "/mcps/noder/mcp", h.owner, "work", object{}).content(t)
		return done
	})
	said, _ := h.tool(t, "/mcps/noder/mcp", h.owner, "ask", object{}).content(t)
	mentions(t, "an agent that asks itself", said, "ask work | worked | true | unknown_agent")
}
