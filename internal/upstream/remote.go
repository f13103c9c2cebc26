package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/stoahub/stoa/internal/mcp"
)

// remote opens a transport to a server at a URL.
func (u *Upstream) remote(opts mcp.ConnOptions) (mcp.Conn, error) {
	addr, err := url.Parse(u.opts.URL)
	if err != nil {
		return nil, err
	}
	switch {
	case u.opts.Way == WebSocket:
		return mcp.SocketTo(addr, u.opts.Header, u.opts.TLS, opts, u.garbage), nil
	case u.opts.Way == SSE || u.old.Load():
		return mcp.SSETo(addr, u.opts.Header, u.transport, opts, u.garbage), nil
	}
	return mcp.HTTPTo(addr, u.opts.Header, u.transport, opts), nil
}

func (u *Upstream) garbage(line []byte) {
	where := "writes lines to stdout"
	if u.opts.URL != "" {
		where = "sends texts"
	}
	u.health("garbage", "the server %s that are no messages, such as %.60q; they are passed over", where, line)
}

// older tries HTTP+SSE after a handshake over streamable HTTP failed in a way
// that servers from before it have of failing. It returns nil where that is not
// so, or is of no use.
func (u *Upstream) older(ctx context.Context, k key, caps []byte, failed error) *link {
	if u.old.Swap(false) || u.opts.Way != AnyHTTP || u.opts.URL == "" || k.era != mcp.Legacy {
		return nil // if it was old, it may be another server now
	}
	st, ok := errors.AsType[*mcp.StatusError](failed)
	if !ok || st.Status != http.StatusBadRequest && st.Status != http.StatusNotFound && st.Status != http.StatusMethodNotAllowed {
		return nil
	}
	u.old.Store(true)
	conn, proc, err := u.raw()
	if err == nil {
		var hello *mcp.Hello
		if hello, err = u.shake(ctx, conn, k.era, caps); err == nil {
			return newLink(k, conn, hello, proc, 0)
		}
		conn.Close()
	}
	u.old.Store(false)
	u.opts.Logger.Debug("no HTTP+SSE either", "upstream", u.opts.Name, "err", err)
	return nil
}
