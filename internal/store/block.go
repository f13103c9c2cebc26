package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/minio/highwayhash"
)

// The engine's files are made of records: length, sequence, time, length of
// the subject, subject, length of the headers, headers, data, and a hash of all but
// the lengths. Where there are headers, a wrong length of the subject spoils the
// hash, and a wrong length of theirs is seen by how they begin and end. So every
// entry has some; those of earlier releases may have none.
const (
	recordHead  = 22
	recordHash  = 8
	recordMax   = 32 << 20
	bitHeaders  = 1 << 31 // of the length
	bitErased   = 1 << 63 // of the sequence
	bitDeletion = 1 << 62 // of the sequence: not an entry, but the note that one was deleted
)

// blockReader finds the records of one stream's blocks.
type blockReader struct {
	hash *highwayhash.Digest64
	sum  [recordHash]byte
}

func newBlockReader(stream string, index int) (*blockReader, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, index))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return nil, err
	}
	return &blockReader{hash: h}, nil
}

type record struct {
	size   int
	seq    uint64
	entry  bool // not erased, not the note of a deletion
	intact bool
	cut    bool // the file ends before the record does
}

// at reads the record that begins at b.
func (r *blockReader) at(b []byte) record {
	if len(b) < recordHead {
		return record{cut: true}
	}
	raw, seq, slen := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:]), int(binary.LittleEndian.Uint16(b[20:]))
	size := int(raw &^ bitHeaders)
	rest := slen
	if raw&bitHeaders != 0 {
		rest += 4
	}
	rec := record{size: size, seq: seq &^ (bitErased | bitDeletion), entry: seq&(bitErased|bitDeletion) == 0 && seq != 0}
	if size > len(b) && size <= recordMax {
		rec.cut = true
		return rec
	}
	if size < recordHead+recordHash+rest || size > recordMax {
		return rec
	}
	data := b[recordHead:size]
	from := slen
	if raw&bitHeaders != 0 {
		from += 4
		if rec.entry && !framed(data[from:len(data)-recordHash], binary.LittleEndian.Uint32(data[slen:])) {
			return rec
		}
	}
	r.hash.Reset()
	_, _ = r.hash.Write(b[4:20]) // a hash does not fail
	_, _ = r.hash.Write(data[:slen])
	_, _ = r.hash.Write(data[from : len(data)-recordHash])
	rec.intact = bytes.Equal(r.hash.Sum(r.sum[:0]), data[len(data)-recordHash:])
	return rec
}

// framed reports whether what begins with headers has them in that length.
func framed(b []byte, length uint32) bool {
	if uint64(length) > uint64(len(b)) {
		return false
	}
	headers := b[:length]
	return bytes.HasPrefix(headers, []byte("NATS/1.0")) && bytes.Index(headers, []byte("\r\n\r\n")) == len(headers)-4
}

// flaw is a part of a block that is no record.
type flaw struct {
	from, to int
	before   uint64 // the last sequence before it; 0 if there is none in this block
	after    uint64 // the first entry after it; 0 if there is none in this block
	torn     bool   // the block ends in the middle of a record, as after a crash
}

// blockState is what a block holds.
type blockState struct {
	first, last uint64 // of entries and of notes that move the end; 0 means none
	flaws       []flaw
}

// read goes through a whole block.
func (r *blockReader) read(b []byte) blockState {
	var st blockState
	for i := 0; i < len(b); {
		rec := r.at(b[i:])
		if rec.intact {
			if n := len(st.flaws); n > 0 && rec.entry && st.flaws[n-1].after == 0 {
				st.flaws[n-1].after = rec.seq
			}
			if rec.entry && st.first == 0 {
				st.first = rec.seq
			}
			st.last = max(st.last, rec.seq)
			i += rec.size
			continue
		}
		next := r.resume(b, i, rec.size, st.last)
		st.flaws = append(st.flaws, flaw{from: i, to: next, before: st.last, torn: rec.cut && next == len(b)})
		i = next
	}
	return st
}

// resume finds the next intact record after a flaw at i: most likely where the
// record ends that is damaged. The sequence tells most of what is none without
// a hash of megabytes.
func (r *blockReader) resume(b []byte, i, size int, last uint64) int {
	if size >= recordHead+recordHash && size < len(b)-i && r.at(b[i+size:]).intact {
		return i + size
	}
	const ahead = 1 << 24 // no gap in a block is larger
	for i++; i+recordHead+recordHash <= len(b); i++ {
		seq := binary.LittleEndian.Uint64(b[i+4:]) &^ (bitErased | bitDeletion)
		if (last == 0 && seq < 1<<48 || seq < last+ahead) && r.at(b[i:]).intact {
			return i
		}
	}
	return len(b)
}

// without returns the block without its flaws: sequences that are missing are
// for the engine entries that were deleted.
func without(b []byte, flaws []flaw) []byte {
	out := make([]byte, 0, len(b))
	i := 0
	for _, f := range flaws {
		out = append(out, b[i:f.from]...)
		i = f.to
	}
	return append(out, b[i:]...)
}

// endNote is a block that holds nothing but the note that the sequence was
// there, so that the engine does not give it away again.
func (r *blockReader) endNote(seq uint64, now int64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, recordHead+recordHash)
	b = binary.LittleEndian.AppendUint64(b, seq|bitDeletion)
	b = binary.LittleEndian.AppendUint64(b, uint64(now))
	b = binary.LittleEndian.AppendUint16(b, 0)
	r.hash.Reset()
	_, _ = r.hash.Write(b[4:20]) // a hash does not fail
	return slices.Concat(b, r.hash.Sum(nil))
}
