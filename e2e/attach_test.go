package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// attachedHub is `stoa stdio` that launches the hub of a data folder of its own. When the test ends the hub is stopped
// and has to be gone.
func attachedHub(t *testing.T, set toolset, config string) (to target, data string) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	env := map[string]string{"STOA_DATA": data, "AIUR_SERVER_PORT": "0", "HOME": t.TempDir(), "PATH": os.Getenv("PATH")}
	t.Cleanup(func() {
		stop := exec.Command(stoaBinary(t), "stop", "--data", data)
		stop.Env = environment(t, set)
		if said, err := stop.CombinedOutput(); err != nil {
			t.Errorf("stoa stop: %v\n%s", err, said)
		}
		if _, err := os.Stat(filepath.Join(data, "hub.json")); err == nil {
			t.Error("a hub is left")
		}
		if t.Failed() {
			said, _ := os.ReadFile(filepath.Join(data, "logs", "launch.log"))
			t.Logf("the last hub says:\n%s", said)
		}
	})
	return target{Command: stoaBinary(t), Args: []string{"stdio", "--config", config}, Env: env}, data
}

// TestHubKilledUnderTypeScriptSDKs kills the hub during a conversation. The client must see no closed pipe, and no
// error but that of a call whose fate is not known.
func TestHubKilledUnderTypeScriptSDKs(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	config := writeConfig(t, map[string]server{"fixture": {Command: fixtureBinary(t)}})
	const every = 10
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			calls := 40
			if d.name == "v1" || os.Getenv("STOA_SOAK") != "" {
				calls = 200
			}
			to, data := attachedHub(t, set, config)
			var seen struct {
				Kills int
				Calls []struct {
					Text   string
					Killed bool
					Error  *struct {
						rpcError
						Data struct{ Kind string }
					}
				}
			}
			set.script(t, nil, "kills.mjs", map[string]any{
				"sdk": d.sdk, "mode": d.mode, "command": to.Command, "args": to.Args, "env": to.Env,
				"data": data, "tool": "fixture__test_simple_text", "calls": calls, "every": every,
			}, &seen)
			if len(seen.Calls) != calls || seen.Kills != calls/every {
				t.Fatalf("%d calls and %d kills, want %d and %d", len(seen.Calls), seen.Kills, calls, calls/every)
			}
			// A call that was answered just before leaves the kill to the next one.
			hit := func(i int) bool { return seen.Calls[i].Killed || i > 0 && seen.Calls[i-1].Killed }
			lost := 0
			for i, c := range seen.Calls {
				switch {
				case c.Error == nil && c.Text == "This is a simple text response for testing.":
				case c.Error == nil:
					t.Errorf("call %d: %q", i+1, c.Text)
				case hit(i) && c.Error.Data.Kind == "upstream_lost" && strings.Contains(c.Error.Message, "whether it took effect is not known"):
					lost++
				default:
					t.Errorf("call %d (hub killed: %v): %+v", i+1, c.Killed, c.Error)
				}
			}
			if lost > seen.Kills {
				t.Errorf("%d kills, but %d calls failed", seen.Kills, lost)
			}
			t.Logf("%d calls, %d kills, %d calls whose fate is not known", calls, seen.Kills, lost)
		})
	}
}

// TestTypeScriptSDKsAttached has both generations of the SDK do all they can through a hub that they launch.
func TestTypeScriptSDKsAttached(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	config := writeConfig(t, map[string]server{"fixture": {Command: fixtureBinary(t)}})
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			missing := -32602
			if d.name == "v1" {
				missing = -32002 // as in TestTypeScriptSDKs
			}
			to, _ := attachedHub(t, set, config)
			perform(t, set, d, to, fixtureExpectations(d, "fixture__", missing))
		})
	}
}
