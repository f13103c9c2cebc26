package hub_test

import (
	"path/filepath"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/matrix"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// TestMatrix runs the table of matrix.Rows with peers and clients of our own,
// each of which speaks one era only.
func TestMatrix(t *testing.T) {
	hubtest.Parallel(t)
	var servers []matrix.Server
	var edits []hubtest.Edit
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, transport := range []string{"stdio", "http"} {
			s := matrixServer(t, era, transport)
			for _, name := range []string{s.Name, s.Own} {
				spec := matrix.Spec(era, s.State, "mem://"+name)
				edit := func(c *config.Server) {
					if name == s.Own {
						c.Sharing = config.PerSession
					}
				}
				if transport == "stdio" {
					edits = append(edits, hubtest.Stdio(name, spec, edit))
				} else {
					edits = append(edits, hubtest.HTTP(name, peer.Serve(t, spec).URL, edit))
				}
			}
			servers = append(servers, s)
		}
	}
	h := hubtest.New(t, edits...)
	makes := []matrix.Make{matrix.Raw(h.URL, hubtest.Legacy), matrix.Raw(h.URL, hubtest.Modern)}
	matrix.Each(t, append(makes, sdkClients(h.URL)...), servers)
}

// matrixServer describes a server of the matrix, named after what it speaks.
func matrixServer(t *testing.T, era hubtest.Era, transport string) matrix.Server {
	name := string(era) + "-" + transport
	return matrix.Server{Name: name, Own: name + "-own", Era: era, URI: "mem://" + name, State: filepath.Join(t.TempDir(), "state")}
}
