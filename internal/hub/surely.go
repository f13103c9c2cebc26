package hub

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
)

// surely has f say that something is not there only if it is at no hub on the store:
// another may just have made it. Then all that they have written is taken in, and f
// is asked again.
func (h *Hub) surely(f apiHandler) apiHandler {
	if !h.isStoreShared() {
		return f
	}
	return func(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
		body := &replay{ReadCloser: r.Body}
		r.Body = body
		err := f(w, r, who)
		if err == nil || !isAbsent(err) || !body.rewind() {
			return err
		}
		if late := h.catchUp(r.Context()); late != nil {
			h.log.Warn("what other hubs have written cannot be read", obs.KeyErr, late)
			return late
		}
		return f(w, r, who)
	}
}

// isAbsent reports whether an error says that something is not there which is kept.
func isAbsent(err error) bool {
	switch fault.Of(err).Kind {
	case fault.ResourceNotFound, fault.UnknownTool, fault.UnknownAgent, fault.UnknownSession:
		return true
	}
	return false
}

// catchUp takes in what other hubs have written until now.
func (h *Hub) catchUp(ctx context.Context) error {
	all := []func(context.Context) error{
		h.state.sessions.CatchUp, h.tasks.Kept().CatchUp, h.plans.runs.CatchUp, h.plans.published.CatchUp, h.switches.CatchUp, h.agents.book.CatchUp,
	}
	if h.chat.engine != nil {
		all = append(all, h.chat.engine.CatchUp)
	}
	var failed []error
	for _, one := range all {
		failed = append(failed, one(ctx))
	}
	return errors.Join(failed...)
}

// replay is a body that can be read again if it was short.
type replay struct {
	io.ReadCloser
	read bytes.Buffer
	lost bool // it was too long
}

const maxReplay = 1 << 20

func (b *replay) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read.Len()+n > maxReplay {
		b.lost = true
		b.read.Reset()
	}
	if !b.lost {
		b.read.Write(p[:n])
	}
	return n, err
}

// rewind has the body begin anew, and reports false if it cannot.
func (b *replay) rewind() bool {
	if b.lost {
		return false
	}
	rest := b.ReadCloser
	b.ReadCloser = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(bytes.Clone(b.read.Bytes())), rest), rest}
	b.lost = true // it is not read a third time
	return true
}
