package hub_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/proc"
)

// A hub that is told to stop takes nothing new, lets running calls end, and
// ends its streams.
func TestDrain(t *testing.T) {
	hubtest.Parallel(t)
	spec := recoverySpec()
	spec.Tools = append(spec.Tools, peer.Tool{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 1500 * time.Millisecond}},
		peer.Tool{Name: "steps", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 10, For: 150 * time.Millisecond}})
	eachCell(t, spec, worldOptions{}, func(t *testing.T, w *world) {
		if w.transport == "json" {
			t.Skip("a drain does not depend on whether the upstream answers in JSON or by a stream")
		}
		stream := w.client.Listen(`{"toolsListChanged":true}`)
		slow := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "slow"), ""))
		steps := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "steps"), ""), `"progressToken":1`)
		w.called(t, "slow")
		w.called(t, "steps")
		steps.Next()
		w.End()
		address := strings.TrimPrefix(w.URL, "http://")
		await.Until(t, "nothing new is taken", func() bool {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
		for { // the stream ends in good order
			m, err := stream.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("the stream: %v", err)
			}
			if m.IsResponse() && w.era == hubtest.Legacy {
				t.Errorf("the stream: %s", m.Raw)
			}
		}
		if m := slow.Response(); m.Text() != "done" {
			t.Errorf("a call in flight: %s", m.Raw)
		}
		before, m := steps.Wait()
		if m.Text() != "done" || len(before) < 8 {
			t.Errorf("a call with progress in flight: %d messages, %s", len(before), m.Raw)
		}
		w.Stop()
		for _, pid := range w.peerState(t).Pids {
			if w.http == nil && proc.Alive(pid) {
				t.Errorf("process %d is alive", pid)
			}
		}
		if w.http != nil && len(w.http.Sessions()) > 0 {
			t.Errorf("sessions are left at the upstream: %v", w.http.Sessions())
		}
	})
}

// A call that does not end does not keep the hub for ever.
func TestDrainEnds(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "hang", Behaviour: peer.Do(peer.Hang)}}}
	w := newWorld(t, cell{hubtest.Modern, "stdio", true}, spec, worldOptions{})
	w.client.Go("tools/call", hubtest.ToolParams("up__hang", ""))
	w.called(t, "hang")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		w.Stop()
	}()
	await.Value(t, "the hub has stopped", stopped)
}

// Two hubs cannot use one data folder; the second says who has it.
func TestSecondHubIsRefused(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t)
	await.Until(t, "hub.json is there", func() bool {
		_, err := hub.ReadRunning(h.Data)
		return err == nil
	})
	cfg := hubtest.Default().Config
	cfg.Data = h.Data
	second, err := hub.Open(hub.Options{Config: &cfg})
	if err == nil {
		second.Close()
	}
	if !errors.Is(err, hub.ErrLocked) || !strings.Contains(err.Error(), h.URL) {
		t.Errorf("a second hub: %v", err)
	}
	r, err := hub.ReadRunning(h.Data)
	if err != nil || "http://"+r.Address != h.URL || r.Pid != os.Getpid() {
		t.Errorf("hub.json: %+v, %v", r, err)
	}
	h.Stop()
	if _, err := hub.ReadRunning(h.Data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("hub.json after the end: %v", err)
	}
}
