package blackbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// A13: what is found in the data folder is not believed because it is there.

// prepared is a hub that does not run yet, over a folder that somebody has made.
func prepared(t testing.TB, folder, files fs.FileMode) *hub {
	t.Helper()
	h := &hub{folder: t.TempDir()}
	h.config, h.data = filepath.Join(h.folder, "hub.jsonc"), filepath.Join(h.folder, "data")
	h.configure(t, object{})
	err := errors.Join(os.Mkdir(h.data, 0o700), os.Chmod(h.data, folder))
	for _, name := range []string{"token", "key"} {
		path := filepath.Join(h.data, name)
		err = errors.Join(err, os.WriteFile(path, []byte("known-to-somebody-else-0123456789\n"), 0o600), os.Chmod(path, files))
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ends runs `stoa serve` and returns what it says before it gives up. One that
// serves instead has trusted the folder.
func (h *hub) ends(t testing.TB) string {
	t.Helper()
	h.process = start(t, h, "serve", "--listen", "127.0.0.1:0", "--data", h.data, "--config", h.config)
	await.Until(t, "the hub refuses or is ready", func() bool {
		select {
		case <-h.process.done:
			return true
		default:
			return exists(filepath.Join(h.data, "hub.json"))
		}
	})
	select {
	case <-h.process.done:
		return h.process.output.String()
	default:
		t.Errorf("the hub serves over the folder")
		return ""
	}
}

func TestDataFolderIsChecked(t *testing.T) {
	t.Parallel()
	const other = 12345
	for name, tc := range map[string]struct {
		folder, files fs.FileMode
		foreign       []string // what belongs to another user
		want          []string // of what is said
	}{
		"a token that others can read":  {0o700, 0o644, nil, []string{"is no secret", "chmod 600"}},
		"a token that others can write": {0o755, 0o666, nil, []string{"is no secret", "chmod 600"}},
		"a folder of another user":      {0o755, 0o600, []string{".", "token", "key"}, []string{"12345", "--data"}},
		"a token of another user":       {0o700, 0o600, []string{"token"}, []string{"12345", "token"}},
		"a key of another user":         {0o777, 0o600, []string{"key"}, []string{"12345", "key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := prepared(t, tc.folder, tc.files)
			if len(tc.foreign) > 0 && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			for _, file := range tc.foreign {
				if err := os.Chown(filepath.Join(h.data, file), other, other); err != nil {
					t.Fatal(err)
				}
			}
			said := h.ends(t)
			mentions(t, "the refusal", said, tc.want[0])
			mentions(t, "the refusal", said, tc.want[len(tc.want)-1])
			lacks(t, "the refusal", said, "known-to-somebody-else")
		})
	}
}

// A folder of one's own that was merely open is closed, and the log says so.
func TestOpenDataFolderIsClosed(t *testing.T) {
	t.Parallel()
	h := prepared(t, 0o777, 0o600)
	h.launch(t)
	info, err := os.Stat(h.data)
	if err != nil || info.Mode().Perm()&0o022 != 0 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
	h.kill(t)
	mentions(t, "the log", h.process.output.String(), "other users could write to the data folder")
}

// A command sends no token to a hub that another user runs in our place.
func TestCommandsCheckTheDataFolder(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	h := serve(t, object{})
	if err := os.Chown(h.data, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"servers"}, {"tools"}, {"approvals"}, {"stop"}, {"token", "create", "x"}, {"token", "list"}} {
		out, err := h.run(t, append(args, "--data", h.data, "--config", h.config)...)
		if err == nil || !strings.Contains(err.Error(), "12345") {
			t.Errorf("stoa %s: %v %s", strings.Join(args, " "), err, out)
		}
	}
}

func TestAnswersAreNotGuessedAt(t *testing.T) {
	t.Parallel()
	h := serve(t, object{})
	for _, path := range []string{"/", "/mcp", "/mcps", "/healthz", "/readyz", "/metrics", "/api/v1/tools", "/api/v1/none", "/api/chat", "/nothing"} {
		for _, token := range []string{"", h.owner} {
			if got := h.get(t, path, token); got.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %d without nosniff", path, got.status)
			}
		}
	}
}

func TestPlainHTTPIsAnnounced(t *testing.T) {
	t.Parallel()
	h, _, _ := twoDoors(t, object{})
	out, err := h.run(t, "doctor", "--data", h.data, "--config", h.config)
	if err == nil {
		t.Errorf("doctor finds nothing: %s", out)
	} else {
		mentions(t, "doctor", err.Error(), "plain HTTP")
		mentions(t, "doctor", err.Error(), "tls.cert")
	}
	h.kill(t)
	mentions(t, "the log", h.process.output.String(), "plain HTTP")
	local := serve(t, object{})
	local.kill(t)
	lacks(t, "the log of a hub on loopback", local.process.output.String(), "plain HTTP")
}
