package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"
)

// runRole is the entry of a child: the same binary in another process, so that
// its CPU and memory are its own.
func runRole(name string, args []string) error {
	if err := raiseFileLimit(); err != nil {
		return err
	}
	switch name {
	case "upstream":
		return runUpstream(args)
	case "proxy":
		if len(args) != 1 {
			return errors.New("role proxy: want the upstream's host:port as the one argument")
		}
		return serveRole(newProxy(args[0]))
	case "bare":
		return serveRole(newBare())
	case "loader":
		return runLoader(os.Stdin, os.Stdout)
	case "idler":
		return runIdler(os.Stdin, os.Stdout)
	case "watcher":
		return runWatcher(os.Stdin, os.Stdout)
	}
	return fmt.Errorf("role %q is unknown: want upstream, proxy, bare, loader, idler or watcher", name)
}

// serveRole serves h on a free loopback port, says which on stdout, and ends
// when stdin does, so that no child outlives the run that started it.
func serveRole(h http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := json.NewEncoder(os.Stdout).Encode(ready{Address: listener.Addr().String(), PID: os.Getpid()}); err != nil {
		return fmt.Errorf("announce the address: %w", err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ready is what a child says once it listens; hub.json has the same two
// members.
type ready struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
}

// newProxy is the yardstick: the standard library's proxy with nothing added
// but a connection pool that holds all of the loader's connections, and full
// duplex. Without the latter the server closes the request's body at the first
// flush of the answer, which the transport may still probe for its end; it then
// drops the upstream connection in the middle of a stream.
func newProxy(address string) http.Handler {
	target := &url.URL{Scheme: "http", Host: address}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, "allow full duplex: "+err.Error(), http.StatusInternalServerError)
			return
		}
		forward.ServeHTTP(w, r)
	})
}

// newBare holds the least that net/http can do with each kind of idle
// connection, and reports its own memory.
func newBare() http.Handler {
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("a", 100) + `"}]}}`)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mcp", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
	mux.HandleFunc("/sse", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		holdStream(w, r, ": open\n\n")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		// Twice: the first collection only demotes what sync.Pools hold.
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprintf(w, "%s %d\n%s %d\n%s %g\n", metricHeap, m.HeapAlloc, metricStack, m.StackInuse, metricLastGC, float64(m.LastGC)/1e9)
	})
	return mux
}
