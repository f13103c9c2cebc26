package hub_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// follow runs a hub over a config file and returns a function that replaces
// the file by way of another, as editors do.
func follow(t *testing.T, again <-chan os.Signal, servers map[string]any) (h *hubtest.Hub, rewrite func(text string), text func(servers map[string]any) string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "stoa.jsonc")
	rewrite = func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	text = func(servers map[string]any) string {
		b, err := json.Marshal(map[string]any{"stoa": 1, "servers": servers})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	rewrite(text(servers))
	o := config.Options{Files: []string{path}, Dir: dir, Listen: []string{"127.0.0.1:0"}, Data: dir}
	cfg, _, err := config.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	h = hubtest.New(t, func(s *hubtest.Setup) {
		o.Data = s.Config.Data
		s.Config = *cfg
		s.Config.Data = o.Data
	})
	wg.Go(func() { h.Follow(ctx, o, again) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return h, rewrite, text
}

func entry(spec peer.Spec) map[string]any {
	command, args, env := peer.Command(spec)
	return map[string]any{"command": command, "args": args, "env": env}
}

func TestFollowFiles(t *testing.T) {
	hubtest.Parallel(t)
	one, two := entry(echoSpec("one")), entry(echoSpec("two"))
	h, rewrite, text := follow(t, nil, map[string]any{"one": one})
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcp"})
	await.Until(t, "the first is listed", func() bool { return offers(c, "one__echo") })
	await.Until(t, "it watches", func() bool { return strings.Contains(h.Log(), "nothing changed") })
	before := pids(h)["one"]

	rewrite(text(map[string]any{"one": one, "two": two}))
	await.Until(t, "the second is listed", func() bool { return offers(c, "two__echo") })
	if !strings.Contains(h.Log(), `"changes":["server two added"]`) {
		t.Errorf("the log does not say what changed: %s", h.Log())
	}

	rewrite(`{"stoa": 1, "servers": {"one": {"comand": "x"}}}`)
	await.Until(t, "the wrong file is refused", func() bool { return strings.Contains(h.Log(), `did you mean`) })
	told := func(path string) string {
		_, body := h.Get(path)
		return string(body)
	}
	await.Until(t, "who looks at the config is told why", func() bool {
		return strings.Contains(told("/api/v1/config"), `"refused":[{"file":`) && strings.Contains(told("/api/v1/config"), `did you mean`) && strings.Contains(told("/api/v1/pulse"), `"refused":1`)
	})
	rewrite(strings.Replace(text(map[string]any{"two": two}), `{`, `{"store":"nats://127.0.0.1:1",`, 1))
	await.Until(t, "what cannot change is refused", func() bool { return strings.Contains(h.Log(), "store cannot change while the hub runs") })
	if !offers(c, "one__echo") || !offers(c, "two__echo") || pids(h)["one"] != before {
		t.Error("a refused change had an effect")
	}

	rewrite(text(map[string]any{"two": two}))
	await.Until(t, "the first is gone", func() bool { return !offers(c, "one__echo") })
	await.Until(t, "nothing is refused any more", func() bool {
		return !strings.Contains(told("/api/v1/config"), `"refused"`) && !strings.Contains(told("/api/v1/pulse"), `"refused"`)
	})
}

func TestFollowSignal(t *testing.T) {
	hubtest.Parallel(t)
	again := make(chan os.Signal, 1)
	h, _, _ := follow(t, again, map[string]any{"one": entry(echoSpec("one"))})
	look := func() int { return strings.Count(h.Log(), "config read again, nothing changed") }
	await.Until(t, "it watches", func() bool { return look() == 1 })
	again <- syscall.SIGHUP
	await.Until(t, "the signal makes it read again", func() bool { return look() == 2 })
}
