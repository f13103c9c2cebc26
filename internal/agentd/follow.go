package agentd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/wire"
)

// debounce is how long to wait for more changes: a file is written in several
// steps.
const debounce = 100 * time.Millisecond

// watch knows which files matter: the manifest, and those of resources that
// somebody is subscribed to. Folders are watched rather than files, because
// editors put new files in the place of old ones.
type watch struct {
	mu      sync.Mutex
	w       *fsnotify.Watcher // nil if there can be none
	uris    map[string]bool   // subscribed to
	refused string            // why the manifest was refused last
}

// change changes what is subscribed to.
func (w *watch) change(a *Agent, f func(uris map[string]bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.uris)
	w.arrange(a)
}

// files are the files of the subscriptions by URI. Called with mu held.
func (w *watch) files(o *offer) map[string]string {
	out := map[string]string{}
	for uri := range w.uris {
		if r, vars := o.find(uri); r != nil {
			if path := r.path(vars); path != "" {
				out[uri] = path
			}
		}
	}
	return out
}

// arrange watches the folders that matter now and no others. Called with mu
// held.
func (w *watch) arrange(a *Agent) {
	if w.w == nil {
		return
	}
	folders := map[string]bool{}
	for _, f := range a.manifestFiles() {
		folders[filepath.Dir(f)] = true
	}
	for _, f := range w.files(a.offer.Load()) {
		folders[filepath.Dir(f)] = true
	}
	watched := w.w.WatchList()
	for _, dir := range watched {
		if !folders[dir] {
			_ = w.w.Remove(dir) // it may be gone already
		}
		delete(folders, dir)
	}
	for dir := range folders {
		if err := w.w.Add(dir); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, fsnotify.ErrClosed) {
			a.log.Warn("a folder cannot be watched", "folder", dir, obs.KeyErr, err)
		}
	}
}

// manifestFiles are what a manifest is read from.
func (a *Agent) manifestFiles() []string {
	file := a.offer.Load().m.File
	out := []string{file, filepath.Join(filepath.Dir(file), ".env")}
	if target, err := filepath.EvalSymlinks(file); err == nil && target != file {
		out = append(out, target)
	}
	return out
}

// follow begins to follow changes, until the agent is closed.
func (a *Agent) follow() {
	a.watch.uris = map[string]bool{}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		a.log.Warn("files cannot be watched; SIGHUP reads the manifest again", obs.KeyErr, err)
		return
	}
	a.watch.mu.Lock()
	a.watch.w = w
	a.watch.arrange(a)
	a.watch.mu.Unlock()
	a.wg.Go(func() {
		defer w.Close()
		a.hear(a.ctx, w)
	})
}

// hear reloads the manifest and tells of resources as their files change.
func (a *Agent) hear(ctx context.Context, w *fsnotify.Watcher) {
	var reload, tell bool
	late := time.NewTimer(0) // what changed before we watched
	reload = true
	defer late.Stop()
	changed := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-w.Errors:
			a.log.Warn("watch files", obs.KeyErr, err)
			reload = true // events may have been lost
			late.Reset(debounce)
		case ev := <-w.Events:
			if ev.Op == fsnotify.Chmod {
				continue
			}
			// Kubernetes changes files by changing the link ..data beside them.
			if slices.Contains(a.manifestFiles(), ev.Name) || strings.HasPrefix(filepath.Base(ev.Name), "..") {
				reload = true
				late.Reset(debounce)
			}
			if !tell {
				late.Reset(debounce)
			}
			changed[ev.Name], tell = true, true
		case <-late.C:
			if reload {
				_ = a.Reload() // it has said what is wrong
			}
			a.updated(changed)
			reload, tell = false, false
			clear(changed)
		}
	}
}

// updated tells those who are subscribed to what these files hold.
func (a *Agent) updated(files map[string]bool) {
	a.watch.mu.Lock()
	all := a.watch.files(a.offer.Load())
	a.watch.mu.Unlock()
	for uri, path := range all {
		if files[path] {
			a.audience.Updated(uri, append(wire.AppendString([]byte(`{"uri":`), uri), '}'), nil)
		}
	}
}
