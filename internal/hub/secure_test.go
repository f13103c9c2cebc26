package hub_test

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// A store elsewhere that wants TLS and credentials is used with what the config
// names, and not without.
func TestStoreWithTLSAndCredentials(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartSecure(t)
	good := config.Store{URL: s.URL, Credentials: s.Credentials, TLS: config.StoreTLS{CA: s.CA}, Replicas: 1}
	for name, edit := range map[string]func(*config.Store){
		"no authority":   func(c *config.Store) { c.TLS = config.StoreTLS{} },
		"no credentials": func(c *config.Store) { c.Credentials = "" },
		"no CA file":     func(c *config.Store) { c.TLS.CA = filepath.Join(t.TempDir(), "none.pem") },
	} {
		bad := good
		edit(&bad)
		cfg := hubtest.Default().Config
		cfg.Data, cfg.Store = filepath.Join(t.TempDir(), "data"), bad
		if h, err := hub.Open(hub.Options{Config: &cfg}); err == nil {
			h.Close()
			t.Errorf("%s: the hub opened", name)
		} else if !strings.Contains(err.Error(), "store") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Not by hubtest.New, which would take what the server begins for the hub's.
	with := func(data string, use func(*hubtest.Client)) {
		cfg := hubtest.Default().Config
		cfg.Data, cfg.Store, cfg.Modules = data, good, config.Default().Modules
		h, err := hub.Open(hub.Options{Config: &cfg})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		handler, err := h.Handler(true)
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(handler)
		defer web.Close()
		use(hubtest.Dial(t, web.URL, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/s/work/mcp"}))
	}
	data := filepath.Join(t.TempDir(), "data")
	with(data, func(c *hubtest.Client) {
		if m := c.Tool("context_add", `{"name":"x","data":17}`); strings.Contains(string(m.Raw), "isError") {
			t.Fatalf("%s", m.Raw)
		}
	})
	with(data, func(c *hubtest.Client) {
		if m := c.Tool("context_get", `{"name":"x"}`); !strings.Contains(m.Text(), `"data":17`) {
			t.Errorf("after a restart: %s", m.Raw)
		}
	})
}
