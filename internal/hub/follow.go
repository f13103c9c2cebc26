package hub

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
)

// debounce is how long to wait for more changes: a file is written in several
// steps, and several files may change together.
const debounce = 200 * time.Millisecond

// Follow reloads the hub when the files that o names change, and when a signal
// comes, until ctx ends. What changed, or why it was refused, is logged; a
// config that is wrong or refused leaves the hub as it is.
func (h *Hub) Follow(ctx context.Context, o config.Options, again <-chan os.Signal) {
	f := follower{h: h, o: o, log: h.logger("config")}
	f.watch()
	defer f.close()
	late := time.NewTimer(0) // what changed before we watched
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			late.Reset(0)
		case ev := <-f.events():
			if f.matters(ev.Name) && !ev.Has(fsnotify.Chmod) {
				late.Reset(debounce)
			}
		case err := <-f.errors():
			f.log.Warn("watch the config", "err", err)
			late.Reset(debounce) // events may have been lost
		case <-late.C:
			f.reload()
		}
	}
}

// follower is one Follow.
type follower struct {
	h       *Hub
	log     *slog.Logger
	o       config.Options
	w       *fsnotify.Watcher // nil if there can be none
	matters func(path string) bool
}

func (f *follower) events() <-chan fsnotify.Event {
	if f.w == nil {
		return nil
	}
	return f.w.Events
}

func (f *follower) errors() <-chan error {
	if f.w == nil {
		return nil
	}
	return f.w.Errors
}

func (f *follower) close() {
	if f.w != nil {
		f.w.Close()
	}
}

// watch begins to watch what matters now, and stops watching what does not.
func (f *follower) watch() {
	var err error
	if f.w == nil && f.matters == nil {
		if f.w, err = fsnotify.NewWatcher(); err != nil {
			f.w = nil
			f.log.Warn("config files cannot be watched; SIGHUP reads them again", "err", err)
		}
	}
	var folders []string
	folders, f.matters = config.Watched(f.o, f.h.config())
	if f.w == nil {
		return
	}
	watched := f.w.WatchList()
	for _, dir := range folders {
		if slices.Contains(watched, dir) {
			continue
		}
		if err := f.w.Add(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			f.log.Warn("a folder of the config cannot be watched; SIGHUP reads it again", "folder", dir, "err", err)
		}
	}
	for _, dir := range watched {
		if !slices.Contains(folders, dir) {
			_ = f.w.Remove(dir) // it may be gone already
		}
	}
}

// refusal is why the files of the config, as they are now, are not in effect.
type refusal struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// refusals are those of an error of a reload; nil if there is none.
func refusals(err error) *[]refusal {
	if err == nil {
		return nil
	}
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return &[]refusal{{Text: err.Error(), Hint: fault.Of(err).Advice()}}
	}
	all := make([]refusal, len(problems))
	for i, p := range problems {
		all[i] = refusal{File: p.File, Line: p.Line, Text: p.Text, Hint: p.Hint}
	}
	return &all
}

// reload reads the config again and puts it into effect.
func (f *follower) reload() {
	log := f.log.With(obs.KeyAction, "reload")
	cfg, notes, err := config.Load(f.o)
	if err == nil {
		var changes []Change
		if changes, err = f.h.Reload(cfg); err == nil && len(changes) > 0 {
			said := make([]string, len(changes))
			for i, c := range changes {
				said[i] = c.String()
			}
			for _, n := range notes {
				log.Log(context.Background(), n.Level(), "config note", "file", n.File, "line", n.Line, "text", n.Text, "hint", n.Hint)
			}
			log.Info("config changed", "changes", said)
		} else if err == nil {
			log.Debug("config read again, nothing changed")
		}
	}
	f.h.refused.Store(refusals(err))
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, p := range problems {
			log.Warn("config refused", "file", p.File, "line", p.Line, "text", p.Text, "hint", p.Hint)
		}
	} else if err != nil {
		log.Warn("config refused", "err", err, "hint", fault.Of(err).Advice())
	}
	f.watch()
}
