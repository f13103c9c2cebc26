package modules

import (
	"encoding/json"
	"fmt"
	"math"
)

// The bounds of a list in one answer: a model pays for every entry.
const (
	pageEntries = 100 // unless the caller says otherwise
	pageBytes   = 64 << 10
)

// pageArgs are the arguments by which a caller goes on in a list.
const pageArgs = `"offset":{"type":"integer","minimum":0,"description":"How many to skip."},"limit":{"type":"integer","minimum":1,"maximum":1000,"description":"How many at most. Default 100."}`

// pageLimit is how many entries of a list one answer has: all if the answer is kept
// and its caller has not asked for fewer.
func pageLimit(limit int, whole bool) (entries, bytes int) {
	if whole {
		return orElse(limit, math.MaxInt), math.MaxInt
	}
	return orElse(limit, pageEntries), pageBytes
}

// paged returns the part of a list that one answer holds, and where to go on;
// 0 if there is no more.
func paged[T any](all []T, offset, limit int, whole bool) (part []T, next int) {
	offset = min(offset, len(all))
	limit, most := pageLimit(limit, whole)
	part, size := []T{}, 0
	for _, one := range all[offset:] {
		b, err := json.Marshal(one)
		if err != nil {
			b = nil // whoever encodes the answer says so
		}
		if size += len(b); len(part) == limit || size > most && len(part) > 0 {
			return part, offset + len(part)
		}
		part = append(part, one)
	}
	return part, 0
}

// pageText says which part of a list it is.
func pageText(total, offset, shown, next int, one, many string) string {
	text := count(total, one, many)
	switch {
	case next > 0:
		return fmt.Sprintf("%s; %d from %d on are listed, go on with offset %d", text, shown, offset, next)
	case offset > 0:
		return fmt.Sprintf("%s; the last %d are listed", text, shown)
	}
	return text
}
