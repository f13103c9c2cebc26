package hub_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/secret"
)

func TestLogFilesOfTheDataFolder(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: append(echoTool(), peer.Tool{Name: "hang", Behaviour: peer.Do(peer.Hang)})})
	const password = "correct-horse-battery-staple"
	var bearer string
	h := hubtest.New(t,
		hubtest.HTTP("up", web.URL, hubtest.Within("hang", 50*time.Millisecond), func(s *config.Server) {
			s.Headers = map[string]secret.String{"Authorization": secret.New(password)}
		}),
		func(s *hubtest.Setup) {
			bearer = token(t, s, "someone", "*")
			s.Config.Log.Level = "trace"
		})
	settled(t, h, "up")
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Token: bearer})
	c.Tool("up__echo", `{"password":"`+password+`"}`)
	c.Tool("up__hang", "")
	h.Logs().Logger().Warn("as a server may say", obs.KeyComponent, "test", "err", "401: "+password)
	h.Stop()
	got, err := obs.ReadFiles(filepath.Join(h.Data, "logs"), obs.Query{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]func(obs.Record) bool{
		"a call that took too long": func(r obs.Record) bool {
			return r.Level == slog.LevelWarn && r.Msg == "call failed" && r.Get(obs.KeyComponent) == "call" && r.Get(obs.KeyAction) == "tools/call" &&
				r.Get(obs.KeyTool) == "hang" && r.Get(obs.KeyKind) == "timeout" && r.Get(obs.KeyRequest) != "" && r.Get(obs.KeySession) != ""
		},
		"a call that went well": func(r obs.Record) bool {
			return r.Level == slog.LevelDebug && r.Msg == "call done" && r.Get(obs.KeyTool) == "echo"
		},
		"an upstream": func(r obs.Record) bool {
			return r.Get(obs.KeyComponent) == "upstream" && r.Get(obs.KeyUpstream) == "up" && r.Get("state") == "connected"
		},
		"the end": func(r obs.Record) bool { return r.Msg == "hub has stopped" && r.Get(obs.KeyComponent) == "hub" },
	}
	for _, r := range got {
		for what, is := range want {
			if is(r) {
				delete(want, what)
			}
		}
		for _, hidden := range []string{password, bearer, h.Token, c.Session} {
			if hidden != "" && strings.Contains(string(r.Line), hidden) {
				t.Errorf("%s is in the log: %s", hidden, r.Line)
			}
		}
		if r.Get(obs.KeyComponent) == "" {
			t.Errorf("nobody's line: %s", r.Line)
		}
	}
	for what := range want {
		t.Errorf("no line about %s in %d lines", what, len(got))
	}
}

func TestLogFilesThatCannotBeWritten(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := hubtest.New(t, hubtest.HTTP("up", web.URL), func(s *hubtest.Setup) { s.Config.Log.File.Directory = file })
	settled(t, h, "up")
	if m := h.Client(t, hubtest.ClientOptions{}).Tool("up__echo", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Errorf("a call: %s", m.Raw)
	}
	resp, err := http.Get(h.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var said struct {
		Ready  bool
		Health []struct{ Code, Text, Hint string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || !said.Ready || len(said.Health) != 1 || said.Health[0].Code != "log_files" || said.Health[0].Hint == "" {
		t.Errorf("%+v %v", said, err)
	}
	http.DefaultClient.CloseIdleConnections()
	if n := strings.Count(h.Log(), "log files cannot be written"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	if len(h.Logs().Read(obs.Query{Search: "hub is ready"})) != 1 {
		t.Error("what was logged is not in memory")
	}
}
