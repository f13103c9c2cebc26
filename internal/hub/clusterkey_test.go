package hub_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/store/storetest"
)

const clusterKey = "the-cluster-key-of-the-tests-0123456789"

// on puts a hub on a store that others use too, with their cluster key.
func on(s *storetest.Server) hubtest.Edit {
	return hubtest.Config(func(c *config.Config) { c.Store.URL, c.Store.Key = s.URL, secret.New(clusterKey) })
}

// What one hub has signed, the others on its store know, also after a restart.
func TestHubsSignAlike(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	spec := nativeSpec()
	up := hubtest.HTTP("up", peer.Serve(t, spec).URL)
	o := hubtest.ClientOptions{Era: hubtest.Modern, Capabilities: tasksCapability}
	a, b := hubtest.New(t, on(s), up), hubtest.New(t, on(s), up)
	waitTools(t, a)
	waitTools(t, b)
	made := hubtest.Decode[aTask](a.Client(t, o).Tool("up__echo", `{"a":1}`).Result)
	atB := b.Client(t, o)
	if done := until(t, atB, made.TaskID, "completed"); !strings.Contains(string(done.Result), `"a":1`) {
		t.Errorf("%+v", done)
	}
	bent := made.TaskID[:len(made.TaskID)-6] + "AAAAAA"
	if m := atB.Call("tasks/get", `{"taskId":`+hubtest.Quote(bent)+`}`); m.Error == nil {
		t.Errorf("a changed id: %s", m.Raw)
	}
	a.Stop()
	b.Stop()
	again := hubtest.New(t, on(s), up, hubtest.Data(b.Data))
	waitTools(t, again)
	if done := until(t, again.Client(t, o), made.TaskID, "completed"); !strings.Contains(string(done.Result), `"a":1`) {
		t.Errorf("after a restart: %+v", done)
	}
	if n := strings.Count(again.Log(), "no cluster key"); n > 0 {
		t.Error("it says that it has no cluster key")
	}
}

// A hub whose cluster key is not the others' does not start, and says why. The
// key can come from a file or a command.
func TestClusterKeys(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	hubtest.New(t, on(s)).Stop()
	file := func(text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		store config.Store
		want  string // in the error; "" means that it starts
	}{
		"the key":               {config.Store{Key: secret.New(clusterKey)}, ""},
		"a file":                {config.Store{KeyFile: file(clusterKey+"\n", 0o600)}, ""},
		"a command":             {config.Store{KeyCommand: []string{"printf", "%s\n", clusterKey}}, ""},
		"another":               {config.Store{Key: secret.New(strings.ToUpper(clusterKey))}, "is not the one of the other hubs on this store"},
		"none":                  {config.Store{}, "this hub has none. Give this hub the cluster key"},
		"a short one":           {config.Store{Key: secret.New("too short")}, "has 9 characters and needs 32"},
		"a file of others":      {config.Store{KeyFile: file(clusterKey, 0o644)}, "chmod 600"},
		"no file":               {config.Store{KeyFile: filepath.Join(t.TempDir(), "none")}, "no such file"},
		"an empty file":         {config.Store{KeyFile: file("", 0o600)}, "has 0 characters"},
		"a command that fails":  {config.Store{KeyCommand: []string{"sh", "-c", "echo " + clusterKey + "; echo locked >&2; exit 3"}}, "sh: exit status 3: locked"},
		"no command":            {config.Store{KeyCommand: []string{"there-is-no-such-program"}}, "not found"},
		"a command without end": {config.Store{KeyCommand: []string{"sh", "-c", "head -c 10000 /dev/zero"}}, "more than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := hubtest.Default().Config
			cfg.Data, cfg.Store = filepath.Join(t.TempDir(), "data"), tt.store
			cfg.Store.URL, cfg.Store.Replicas = s.URL, 1
			h, err := hub.Open(hub.Options{Config: &cfg})
			if err == nil {
				h.Close()
			}
			switch {
			case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want %q", err, tt.want)
			case err != nil && (strings.Contains(err.Error(), clusterKey) || strings.Contains(err.Error(), strings.ToUpper(clusterKey))):
				t.Errorf("the error tells the key: %v", err)
			}
		})
	}
	if raw := string(storetest.Raw(t, s.URL)); strings.Contains(raw, clusterKey) || !strings.Contains(raw, "bucket_vault.signing") {
		t.Error("the store holds the key, or none")
	}
}

// A hub that was told nothing but the address of a store runs, and says what it
// does not share.
func TestStoreWithoutClusterKey(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	h := hubtest.New(t, hubtest.Config(func(c *config.Config) { c.Store.URL = s.URL }))
	_, body := h.Get("/readyz")
	var text string
	for _, item := range hubtest.Decode[health](body).Health {
		if item.Code == "store_key" {
			text = item.Severity + ": " + item.Text + " " + item.Hint
		}
	}
	if !strings.HasPrefix(text, "warning: no cluster key") || !strings.Contains(text, "store.keyFile") || !strings.Contains(h.Log(), "no cluster key") {
		t.Errorf("%q", text)
	}
}

// principals opens those who may use the hubs on a store, as a command does.
func principals(t *testing.T, s *storetest.Server) *hub.Principals {
	t.Helper()
	cfg := hubtest.Default().Config
	cfg.Data, cfg.Store.URL, cfg.Store.Key = t.TempDir(), s.URL, secret.New(clusterKey)
	p, err := hub.OpenPrincipals(t.Context(), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// A token is good at every hub on the store, is settled in by one of them, and
// is good at none when it was revoked; what it has opened ends.
func TestHubsLetInTheSameTokens(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	hubs := []*hubtest.Hub{hubtest.New(t, on(s)), hubtest.New(t, on(s))}
	all := principals(t, s)
	_, bob, err := all.Tokens.Create("bob", auth.Scopes{"*"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	asks := func(h *hubtest.Hub) int { return apiClient{t, h, bob}.do("GET", "/api/v1/servers", "").Status }
	var sockets []*websocket.Conn
	settled := 0
	for _, h := range hubs {
		if status := asks(h); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		ws, _, err := websocket.Dial(within(t), strings.Replace(h.URL, "http", "ws", 1)+"/mcp/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + bob}}})
		if err != nil {
			t.Fatal(err)
		}
		defer ws.CloseNow()
		sockets = append(sockets, ws)
		settled += strings.Count(h.Log(), "a token is used for the first time")
	}
	if settled != 1 {
		t.Errorf("what the name had was removed %d times", settled)
	}
	if _, err := all.Tokens.Revoke("bob"); err != nil {
		t.Fatal(err)
	}
	for i, h := range hubs {
		await.Until(t, "the token is refused", func() bool { return asks(h) == http.StatusUnauthorized })
		if _, _, err := sockets[i].Read(within(t)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("its socket goes on: %v", err)
		}
	}
	hubs[0].Stop()
	again := hubtest.New(t, on(s), hubtest.Data(hubs[0].Data))
	if status := asks(again); status != http.StatusUnauthorized {
		t.Errorf("after a restart: status %d", status)
	}
}

// A browser that got its code from one hub signs in at another, and is signed in at
// all of them, for sockets too, until it is signed out at any.
func TestBrowserOfSeveralHubs(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	a, b := hubtest.New(t, on(s)), hubtest.New(t, on(s))
	code := hubtest.Decode[struct{ ID, Code string }](apiClient{t, a, a.Token}.ok("POST", "/api/v1/sign-ins/codes", "{}"))
	signIn := func(h *hubtest.Hub) hubtest.Answer {
		return apiClient{t, h, ""}.do("POST", "/api/v1/sign-ins", `{"code":`+hubtest.Quote(code.Code)+`}`)
	}
	in := signIn(b)
	if in.Status != http.StatusOK {
		t.Fatalf("status %d: %s", in.Status, in.Body)
	}
	if again := signIn(a); again.Status != http.StatusUnauthorized {
		t.Errorf("the code at the hub that made it: status %d: %s", again.Status, again.Body)
	}
	if st := hubtest.Decode[auth.Code](apiClient{t, a, a.Token}.ok("GET", "/api/v1/sign-ins/codes/"+code.ID, "")); !st.Used {
		t.Errorf("%+v", st)
	}
	browser := hubtest.Decode[struct{ ID, Secret string }](in.Body)
	for _, pair := range [][2]*hubtest.Hub{{a, b}, {b, a}} {
		from, to := apiClient{t, pair[0], browser.Secret}, pair[1]
		from.ok("GET", "/api/v1/sign-ins", "")
		ticket := hubtest.Decode[struct{ Ticket string }](from.ok("POST", "/api/v1/tickets", `{"path":"/mcp/ws"}`)).Ticket
		open := func() (*websocket.Conn, error) {
			ws, _, err := websocket.Dial(within(t), strings.Replace(to.URL, "http", "ws", 1)+"/mcp/ws?ticket="+ticket, nil)
			return ws, err
		}
		ws, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer ws.CloseNow()
		if got := say(t, ws, hello); !strings.Contains(got, "protocolVersion") {
			t.Errorf("%s", got)
		}
		if ws, err := open(); err == nil {
			ws.CloseNow()
			t.Error("the ticket is good twice")
		}
	}
	if gone, err := principals(t, s).SignIns.Revoke(func(one auth.SignIn) bool { return one.ID == browser.ID }); err != nil || len(gone) != 1 {
		t.Fatalf("%v, %v", gone, err)
	}
	for _, h := range []*hubtest.Hub{a, b} {
		await.Until(t, "it is signed out", func() bool {
			return apiClient{t, h, browser.Secret}.do("GET", "/api/v1/sign-ins", "").Status == http.StatusUnauthorized
		})
	}
}
