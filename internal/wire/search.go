package wire

import "bytes"

// Contains is bytes.Contains that goes by one byte of text, at index rare,
// which the caller knows to be rare in b. In JSON a search for what begins with
// a quote is slow, since so much does.
func Contains(b []byte, text string, rare int) bool {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], text[rare])
		if n < 0 {
			return false
		}
		from := at + n - rare
		if at += n + 1; from >= 0 && len(b)-from >= len(text) && string(b[from:from+len(text)]) == text {
			return true
		}
	}
}
