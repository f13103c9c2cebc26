package storetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stoahub/stoa/internal/hubtest/port"
	"github.com/stoahub/stoa/internal/store"
)

// Server is one server elsewhere, with the settings that it has by default.
type Server struct {
	URL  string
	dir  string
	port int
	proc *process
}

// StartServer starts a server that ends with the test.
func StartServer(t testing.TB) *Server {
	t.Helper()
	s, err := startServer(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.proc.kill() })
	return s
}

func startServer(dir, remove string) (*Server, error) {
	ports, err := port.Free(1)
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, port: ports[0]}
	return s, s.start(remove)
}

func (s *Server) start(remove string) (err error) {
	s.proc, err = spawn(fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream: {store_dir: %q, max_file_store: 8GB, max_memory_store: 64MB}\n", s.port, s.dir), remove)
	if err == nil {
		s.URL = s.proc.url
	}
	return err
}

// Kill ends the server at once.
func (s *Server) Kill() { s.proc.kill() }

// Restart starts the server again after Kill, at the same address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.start(""); err != nil {
		t.Fatal(err)
	}
}

// Cluster is a cluster of three servers.
type Cluster struct {
	URL     string // of all nodes
	dir     string
	configs []string
	procs   []*process
}

const nodes = 3

// StartCluster starts a cluster that ends with the test. It takes some seconds
// until it has a leader.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c, err := startCluster(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range c.procs {
			p.kill()
		}
	})
	return c
}

func startCluster(dir, remove string) (*Cluster, error) {
	ports, err := port.Free(2 * nodes)
	if err != nil {
		return nil, err
	}
	var routes, urls []string
	for _, p := range ports[nodes:] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	c := &Cluster{dir: dir}
	for i := range nodes {
		c.configs = append(c.configs, fmt.Sprintf(`server_name: n%d
listen: "127.0.0.1:%d"
jetstream: {store_dir: %q, max_file_store: 8GB, max_memory_store: 64MB}
cluster: {name: c, listen: "127.0.0.1:%d", pool_size: -1, routes: [%s]}
`, i, ports[i], filepath.Join(dir, fmt.Sprint(i)), ports[nodes+i], strings.Join(routes, ",")))
		p, err := spawn(c.configs[i], remove)
		if err != nil {
			c.stop()
			return nil, err
		}
		c.procs = append(c.procs, p)
		urls = append(urls, p.url)
	}
	c.URL = strings.Join(urls, ",")
	if err := c.ready(); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) stop() {
	for _, p := range c.procs {
		p.kill()
	}
}

// ready waits until the cluster has a leader and all know each other.
func (c *Cluster) ready() error {
	nc, err := nats.Connect(c.URL, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		try, stop := context.WithTimeout(ctx, 2*time.Second)
		_, err = js.CreateStream(try, jetstream.StreamConfig{Name: "ready", Subjects: []string{"ready"}, Replicas: nodes})
		if err == nil {
			err = js.DeleteStream(try, "ready")
		}
		stop()
		if err == nil {
			return nil
		}
		pause(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("the cluster has no leader: %w", err)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Kill ends a node at once.
func (c *Cluster) Kill(i int) { c.procs[i].kill() }

// Restart starts a node again after Kill.
func (c *Cluster) Restart(t testing.TB, i int) {
	t.Helper()
	p, err := spawn(c.configs[i], "")
	if err != nil {
		t.Fatal(err)
	}
	c.procs[i] = p
}

// connect returns a way to ask the cluster; it ends with the test.
func (c *Cluster) connect(t testing.TB) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Leader is the node that leads the stream of a log.
func (c *Cluster) Leader(t testing.TB, log string) int {
	t.Helper()
	js := c.connect(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		s, err := js.Stream(ctx, log)
		if err == nil {
			if cl := s.CachedInfo().Cluster; cl != nil {
				for i := range nodes {
					if cl.Leader == fmt.Sprintf("n%d", i) {
						return i
					}
				}
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("log %s has no leader: %v", log, err)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// Whole waits until every node is there and has all that a log holds, so that
// any one of them may go.
func (c *Cluster) Whole(t testing.TB, log string) {
	t.Helper()
	js := c.connect(t)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, 2*time.Second)
		s, err := js.Stream(try, log)
		stop()
		current := 0
		if err == nil && s.CachedInfo().Cluster != nil && s.CachedInfo().Cluster.Leader != "" {
			for _, peer := range s.CachedInfo().Cluster.Replicas {
				if peer.Current && !peer.Offline {
					current++
				}
			}
		}
		if current == nodes-1 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("log %s has %d current followers: %v", log, current, err)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// Options are those of a store on the cluster.
func (c *Cluster) Options() store.Options {
	return store.Options{URL: c.URL, Replicas: nodes}
}

// wipe removes all that former tests left on a server.
func wipe(url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	list := js.StreamNames(ctx)
	for name := range list.Name() {
		if err := js.DeleteStream(ctx, name); err != nil {
			return err
		}
	}
	return list.Err()
}

func tempDir() (string, error) { return os.MkdirTemp("", "storetest") }

// Logs are the names of all that a server keeps.
func (s *Server) Logs(t testing.TB) []string {
	t.Helper()
	nc, err := nats.Connect(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var all []string
	list := js.StreamNames(ctx)
	for name := range list.Name() {
		all = append(all, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
