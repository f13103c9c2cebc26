package e2e

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/matrix"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// TestMatrixTypeScriptClients runs the matrix of eras with the clients of both TypeScript SDKs before the hub, and
// behind it peers of our own that speak one era only.
func TestMatrixTypeScriptClients(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	var columns []matrix.Server
	servers := map[string]server{}
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, transport := range []string{"stdio", "http"} {
			m := matrixServer(t, string(era), era, transport)
			columns = append(columns, m)
			for _, name := range []string{m.Name, m.Own} {
				spec := matrix.Spec(era, m.State, "mem://"+name)
				var s server
				if transport == "http" {
					s.URL = peer.Serve(t, spec).URL
				} else {
					s.Command, s.Args, s.Env = peer.Command(spec)
				}
				if name == m.Own {
					s.Sharing = "session"
				}
				servers[name] = s
			}
		}
	}
	h := startHub(t, set, servers)
	d := startDriver(t, set)
	makes := d.makes("http://" + h.address)
	for _, as := range dialects {
		if as.name != "v2-legacy" { // one legacy client is enough for these faces
			makes = append(makes, d.merged("stdio", as, func(t testing.TB) target { return stdioHub(t, h) }))
		}
		if as.name == "v1" { // the other SDK has no such transport
			makes = append(makes, d.merged("ws", as, func(testing.TB) target { return target{URL: h.socket()} }))
		}
	}
	matrix.Each(t, makes, columns)
}

// TestMatrixTypeScriptServers runs the matrix with servers of both TypeScript SDKs behind the hub. Before it are our
// own clients, which speak one era only, and those of the SDKs.
func TestMatrixTypeScriptServers(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	var columns []matrix.Server
	servers := map[string]server{}
	for _, kind := range []struct {
		name, sdk string
		era       hubtest.Era
	}{{"v1", "v1", hubtest.Legacy}, {"v2-legacy", "v2", hubtest.Legacy}, {"v2-modern", "v2", hubtest.Modern}} {
		for _, transport := range []string{"stdio", "http"} {
			m := matrixServer(t, kind.name, kind.era, transport)
			m.Presumes = true
			if kind.era == hubtest.Modern {
				m.Own = "" // it needs none, and each server is a process
			}
			columns = append(columns, m)
			for _, name := range []string{m.Name, m.Own} {
				if name == "" {
					continue
				}
				s := matrixProcess(t, set, map[string]any{
					"sdk": kind.sdk, "era": kind.era, "transport": transport, "state": m.State, "uri": "mem://" + name,
				})
				if name == m.Own {
					s.Sharing = "session"
				}
				servers[name] = s
			}
		}
	}
	h := startHub(t, set, servers)
	base := "http://" + h.address
	makes := []matrix.Make{matrix.Raw(base, hubtest.Legacy), matrix.Raw(base, hubtest.Modern)}
	for _, m := range startDriver(t, set).makes(base) {
		if m.Name != "v2-legacy" { // v1 is the legacy client before v2's servers
			makes = append(makes, m)
		}
	}
	matrix.Each(t, makes, columns)
}

// matrixServer describes a server of the matrix.
func matrixServer(t *testing.T, kind string, era hubtest.Era, transport string) matrix.Server {
	name := kind + "-" + transport
	return matrix.Server{Name: name, Own: name + "-own", Era: era, URI: "mem://" + name, State: filepath.Join(t.TempDir(), "state")}
}

// matrixProcess is a server that matrix-server.mjs runs: as a child of the hub, or over HTTP until the test ends.
func matrixProcess(t *testing.T, set toolset, job map[string]any) server {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{filepath.Join(set.scripts, "matrix-server.mjs"), string(text)}
	if job["transport"] == "stdio" {
		return server{Command: set.node, Args: args}
	}
	var note struct{ URL string }
	p := start(t, environment(t, set), set.node, args...)
	p.await(t, "it tells its address", func() error {
		if json.Unmarshal([]byte(p.text()), &note) != nil || note.URL == "" {
			return errors.New("no address yet")
		}
		return nil
	})
	return server{URL: note.URL}
}
