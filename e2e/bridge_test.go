package e2e

import (
	"os"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/wsagent"
)

// TestBridgeUnderTypeScriptSDKs has clients of both generations talk to WebSocket agents through `stoa bridge`.
func TestBridgeUnderTypeScriptSDKs(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	s := wsagent.Start(map[string]string{
		"AIlumina": `ask {"user_input":"What's my name?","chat_messages":[{"role":"user","content":"My name is John"},{"role":"assistant","content":"Hello John!"}]}
			send {"type":"sentence","sentence":"Your name "}
			send {"type":"tool_running","tool_name":"memory"}
			send {"type":"tool_complete","tool_name":"memory"}
			send {"type":"sentence","sentence":"is John."}
			send {"role":"assistant","content":"Your name is John.","parts":[{"text":"Your name is John."}]}
			send {"type":"complete"}
			hold`,
		"crud": "ask\nsend {\"type\":\"error\",\"error\":\"the table is locked\"}\nhold",
		"news": "ask\ndie",
	}, false)
	defer s.Close()
	to := target{Command: stoaBinary(t), Args: []string{"bridge", "--mode=server", "--data", t.TempDir()},
		Env: map[string]string{"AILUMINA_WS_URL": s.URL, "HOME": t.TempDir(), "PATH": os.Getenv("PATH")}}
	ask := func(agent string, more map[string]any) step {
		args := map[string]any{"agent_type": agent, "user_input": "What's my name?"}
		for k, v := range more {
			args[k] = v
		}
		return call("ailumina_chat", args)
	}
	history := []map[string]any{{"role": "user", "content": "My name is John"}, {"role": "assistant", "content": "Hello John!"}}
	streamed := ask("ailumina", map[string]any{"chat_messages": history})
	streamed.Progress = true
	parts := map[float64]string{1: "Your name ", 4: "is John."}
	refuses := func(want string) func(*testing.T, outcome) {
		return func(t *testing.T, o outcome) {
			var r toolResult
			decode(t, o, &r)
			if want := `{"success":false,"error":"Ailumina chat failed: ` + want + `"}`; !r.IsError || r.text() != want {
				t.Errorf("isError %v, text %q; want %q", r.IsError, r.text(), want)
			}
		}
	}
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			perform(t, set, d, to, []expectation{
				{"tools", step{Op: "tools"}, lists("tools", "name", "ailumina_chat")},
				{"streamed", streamed, sawFirst(progress(0, func(p float64) string { return parts[p] }, 1, 2, 3, 4, 5),
					saysText(`{"success":true,"data":"Your name is John."}`))},
				{"agent-says-no", ask("crud", nil), refuses("the table is locked")},
				{"agent-dies", ask("news", nil), refuses("The answer is not complete: the connection broke")},
				{"unknown-agent", ask("poet", nil), toolFails},
				{"still-there", ask("ailumina", map[string]any{"chat_messages": history}), saysText(`{"success":true,"data":"Your name is John."}`)},
			})
		})
	}
	for _, v := range s.Visits() {
		if v.Wrong != "" {
			t.Errorf("the agent %s: %s", v.Agent, v.Wrong)
		}
	}
}
