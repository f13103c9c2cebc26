package main

import (
	"bytes"
	"errors"
)

var errScan = errors.New("not a JSON object of the shape the upstream reads")

// members calls visit with each member of the JSON object that b holds. The
// name comes without its quotes, the value raw, both as slices of b. It checks
// only what it needs to find its way: the upstream must be the cheapest part
// of the chain, and its peers here are known.
func members(b []byte, visit func(name, value []byte)) error {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return errScan
	}
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return nil
	}
	for i < len(b) {
		start := i
		end := value(b, start)
		if end < 0 || b[start] != '"' {
			return errScan
		}
		name := b[start+1 : end-1]
		i = space(b, end)
		if i >= len(b) || b[i] != ':' {
			return errScan
		}
		start = space(b, i+1)
		end = value(b, start)
		if end < 0 {
			return errScan
		}
		visit(name, b[start:end])
		i = space(b, end)
		if i >= len(b) {
			return errScan
		}
		if b[i] == '}' {
			return nil
		}
		if b[i] != ',' {
			return errScan
		}
		i = space(b, i+1)
	}
	return errScan
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// value returns the index after the JSON value that starts at i, or -1.
func value(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return quoted(b, i)
	case '{', '[':
		return nested(b, i)
	}
	start := i
	for i < len(b) && !bytes.ContainsRune([]byte(",}] \n\r\t"), rune(b[i])) {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// quoted skips a string by its quotes rather than byte by byte, so that a
// megabyte of plain text costs one fast search.
func quoted(b []byte, i int) int {
	for j := i + 1; ; {
		n := bytes.IndexByte(b[j:], '"')
		if n < 0 {
			return -1
		}
		j += n
		back := 0
		for b[j-1-back] == '\\' {
			back++
		}
		j++
		if back%2 == 0 {
			return j
		}
	}
}

func nested(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = quoted(b, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// ask is what the upstream needs to know of one JSON-RPC message. Its fields
// are raw JSON inside the buffer it was read from, and live as long as that.
type ask struct {
	method   string
	id       []byte // nil for a notification
	text     []byte // params.arguments.text, with its quotes
	progress []byte // params._meta.progressToken
	cursor   []byte // params.cursor, with its quotes
	modern   bool   // params._meta names a protocol version
}

func readAsk(b []byte) (ask, error) {
	var a ask
	var params []byte
	err := members(b, func(name, v []byte) {
		switch string(name) {
		case "method":
			if len(v) > 1 {
				a.method = string(v[1 : len(v)-1])
			}
		case "id":
			a.id = v
		case "params":
			params = v
		}
	})
	if err != nil || len(params) == 0 {
		return a, err
	}
	var meta, arguments []byte
	err = members(params, func(name, v []byte) {
		switch string(name) {
		case "arguments":
			arguments = v
		case "_meta":
			meta = v
		case "cursor":
			a.cursor = v
		}
	})
	if err == nil && arguments != nil {
		err = members(arguments, func(name, v []byte) {
			if string(name) == "text" {
				a.text = v
			}
		})
	}
	if err == nil && meta != nil {
		err = members(meta, func(name, v []byte) {
			switch string(name) {
			case "progressToken":
				a.progress = v
			case metaVersion:
				a.modern = true
			}
		})
	}
	return a, err
}
