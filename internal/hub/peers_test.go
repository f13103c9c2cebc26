package hub_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// Two hubs on one store say in which servers and rules they differ, each to
// whom asks it, until they no longer do or one is gone.
func TestHubsThatDifferSaySo(t *testing.T) {
	hubtest.Parallel(t)
	server := storetest.StartServer(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "echo"}}}
	hub := func(edits ...hubtest.Edit) *hubtest.Hub {
		return hubtest.New(t, append(edits, hubtest.Config(func(c *config.Config) { c.Store.URL = server.URL }))...)
	}
	about := func(h *hubtest.Hub) string {
		_, body := h.Get("/readyz")
		for _, item := range hubtest.Decode[health](body).Health {
			if item.Code == "hubs" {
				return item.Severity + ": " + item.Text + " " + item.Hint
			}
		}
		return ""
	}
	a := hub(hubtest.Stdio("up", spec))
	same := hub(hubtest.Stdio("up", spec, func(s *config.Server) { s.Cwd = t.TempDir() }))
	await.Until(t, "the hubs know each other", func() bool { return strings.Contains(same.Log(), "hub is ready") })
	b := hub(hubtest.Stdio("up", spec, func(s *config.Server) { s.Trust = !s.Trust }), hubtest.Config(func(c *config.Config) {
		c.Policy.Rules.Rules = []config.Rule{{Tools: []string{"up:echo"}, Action: "deny"}}
		c.Session.Timeout, c.Modules.Task.Enabled, c.Models.Default = time.Minute, !c.Modules.Task.Enabled, "script"
	}))
	for _, h := range []*hubtest.Hub{a, same, b} {
		await.Until(t, "the difference is said", func() bool {
			text := about(h)
			return strings.HasPrefix(text, "warning: ") && strings.Contains(text, `models.default, modules, policy, server "up", session`) && strings.Contains(text, "same servers")
		})
		if n := strings.Count(h.Log(), "another hub differs"); n == 0 {
			t.Error("the log does not say it")
		}
	}
	if n := strings.Count(a.Log(), "another hub differs"); n != 1 {
		t.Errorf("the log says %d times that another hub differs, want once: hubs that differ by a folder alone do not", n)
	}
	b.Stop()
	for _, h := range []*hubtest.Hub{a, same} {
		await.Until(t, "nothing differs any more", func() bool { return about(h) == "" })
	}
}

// What a server offered at one hub counts at the other, also if it is in another
// folder on that machine: what has changed there is announced.
func TestHubsPinOneServerInTwoFolders(t *testing.T) {
	hubtest.Parallel(t)
	server := storetest.StartServer(t)
	open := func(text string) apiClient {
		tool := peer.Tool{Name: "look", RawDefinition: peer.Raw(`{"name":"look","description":"` + text + `","inputSchema":{"type":"object"}}`)}
		cwd := t.TempDir()
		h := hubtest.New(t, hubtest.Stdio("up", peer.Spec{Tools: []peer.Tool{tool}}, func(s *config.Server) { s.Cwd = cwd }), hubtest.Config(func(c *config.Config) { c.Store.URL = server.URL }))
		c := apiClient{t, h, h.Token}
		await.Until(t, "the tools are read", func() bool { return len(c.tools("?upstream=up").Tools) == 1 })
		return c
	}
	changed := func(c apiClient) int {
		return len(hubtest.Decode[struct{ Definitions []any }](c.ok("GET", "/api/v1/definitions", "")).Definitions)
	}
	if a := open("Looks."); changed(a) != 0 {
		t.Error("the first that was read counts as changed")
	}
	if same := open("Looks."); changed(same) != 0 {
		t.Error("what is the same counts as changed")
	}
	other := open("Looks. And sends what it sees.")
	await.Until(t, "what is not the same is to be looked at", func() bool { return changed(other) == 1 })
}

// A hub over a copy of another's data folder is noticed: both say so, and what to
// do.
func TestCopiedDataFolder(t *testing.T) {
	hubtest.Parallel(t)
	server := storetest.StartServer(t)
	on := func(data string) *hubtest.Hub {
		return hubtest.New(t, hubtest.Config(func(c *config.Config) { c.Store.URL, c.Data = server.URL, data }))
	}
	about := func(h *hubtest.Hub) string {
		_, body := h.Get("/readyz")
		for _, item := range hubtest.Decode[health](body).Health {
			if item.Code == "hub_id" {
				return item.Severity + ": " + item.Text + " " + item.Hint
			}
		}
		return ""
	}
	folder, copied := t.TempDir(), t.TempDir()
	a := on(folder)
	for _, name := range []string{"id", "key", "token", "VERSION", "hub.lock"} {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if text := about(a); text != "" {
		t.Errorf("a hub alone says %s", text)
	}
	b := on(copied)
	for _, h := range []*hubtest.Hub{a, b} {
		await.Until(t, "the other is noticed", func() bool {
			text := about(h)
			return strings.HasPrefix(text, "warning: ") && strings.Contains(text, "is a copy") && strings.Contains(text, "remove the file id")
		})
	}
	if n := strings.Count(a.Log(), "another hub has the id of this one"); n != 1 {
		t.Errorf("the log says it %d times, want once", n)
	}
}
