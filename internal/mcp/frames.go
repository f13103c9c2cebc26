package mcp

import (
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// frames is where the messages of a pipe come from, one at a time. What Next
// returns is valid until the next call. io.EOF means that no more come, but
// that answers can still be sent; wire.ErrTooLong is one message that was
// passed over; any other error is the end of the connection.
type frames interface {
	Next() ([]byte, error)
}

// appendAnswer appends the response to a request.
func appendAnswer(dst, id []byte, modern bool, resp Response, err error) []byte {
	switch {
	case err != nil:
		return wire.AppendError(dst, id, fault.Of(err).Wire(modern))
	case resp.Error != nil:
		return wire.AppendError(dst, id, resp.Error)
	}
	return wire.AppendResult(dst, id, resp.Result)
}
