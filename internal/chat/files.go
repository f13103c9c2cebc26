package chat

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
)

// What is used where FileOptions say nothing.
const (
	FileBytes  = 10 << 20  // one file
	FilesBytes = 100 << 20 // those of a principal, together
	FilesMax   = 100       // how many a principal may have
	FileExpiry = time.Hour
)

// FileOptions bound the files of a hub. The zero value has the defaults.
type FileOptions struct {
	MaxBytes int              // of one file; 0 means FileBytes
	Total    int              // bytes of the files of one principal; 0 means FilesBytes
	Max      int              // files of one principal; 0 means FilesMax
	Expiry   time.Duration    // 0 means FileExpiry
	Clock    func() time.Time // nil means time.Now
	Logger   *slog.Logger     // nil discards
}

func (o *FileOptions) defaults() {
	for _, d := range []struct {
		field *int
		value int
	}{{&o.MaxBytes, FileBytes}, {&o.Total, FilesBytes}, {&o.Max, FilesMax}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.Expiry == 0 {
		o.Expiry = FileExpiry
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// File is what is known of a file that somebody has uploaded, to be named in a
// message to an agent.
type File struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Size    int       `json:"size"`
	Type    string    `json:"type"`
	Expires time.Time `json:"expires"`
}

// Files keeps the files that were uploaded. Each belongs to the principal that
// brought it, and to others it does not exist; nobody can guess its id. It is
// forgotten when its time is over. With a store, files outlive the process, and
// all hubs on it have them.
type Files struct {
	opts  FileOptions
	book  *fileBook
	blobs fileBlobs
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu     sync.Mutex
	coming map[string]*kept // being written; they count, and nobody is shown them
}

// kept is the entry of a file in the log. It is written before the content and
// removed after it, so that no content is left that nobody knows of; a file
// whose content is not there is one whose writer died.
type kept struct {
	File
	Principal string `json:"principal"`
	Hash      string `json:"hash"` // of the content
}

// fileBlobs are the contents, each owned by the id of its file.
type fileBlobs interface {
	journal.Blobs
	Purge(ctx context.Context, owner string) error
}

type (
	fileBook   = journal.Journal[*kept, kept]
	fileEntity = journal.Entity[*kept, kept]
)

const (
	fileLog     = "file"
	fileSubject = "evt.file."
)

// fileKind says what a file is to the journal: one entry, which never changes.
func fileKind(blobs fileBlobs) journal.Kind[*kept, kept] {
	return journal.Kind[*kept, kept]{
		Subjects: fileSubject + "*",
		New:      func(string) *kept { return nil },
		Encode:   func(k *kept, _ []byte, _ string) ([]byte, error) { return json.Marshal(k) },
		Decode: func(entry []byte) (*kept, []byte, string, error) {
			k := &kept{}
			err := json.Unmarshal(entry, k)
			return k, nil, "", err
		},
		Apply: func(was *kept, k *kept, _ journal.Place) (*kept, []journal.Spare, error) {
			if was != nil {
				return was, nil, fmt.Errorf("file %s is there already", k.ID)
			}
			return k, nil, nil
		},
		// Also what is there of a content whose writer died.
		Removed: blobs.Purge,
	}
}

// OpenFiles returns the files that st holds; without a store they are kept in
// memory. Close ends it; the store stays open.
func OpenFiles(ctx context.Context, st *store.Store, o FileOptions) (*Files, error) {
	o.defaults()
	f := &Files{opts: o, coming: map[string]*kept{}}
	var log journal.Log = journal.NewMemory()
	f.blobs = journal.NewMemoryBlobs()
	var err error
	if st != nil {
		if log, err = st.Log(ctx, store.LogOptions{Name: fileLog, Subjects: []string{fileSubject + "*"}}); err != nil {
			return nil, fmt.Errorf("open the uploaded files: %w", err)
		}
		if f.blobs, err = st.Blobs(ctx, "fileblob"); err != nil {
			return nil, fmt.Errorf("open the contents of uploaded files: %w", err)
		}
	}
	alone := st == nil || st.Alone()
	if f.book, err = journal.Open(ctx, log, f.blobs, fileKind(f.blobs), journal.Options{Logger: o.Logger, Alone: alone}); err != nil {
		return nil, fmt.Errorf("read the uploaded files: %w", err)
	}
	f.book.Follow()
	ctx, f.stop = context.WithCancel(context.Background())
	f.wg.Go(func() { f.sweeps(ctx) })
	return f, nil
}

// Close stops sweeping. What was stored stays.
func (f *Files) Close() {
	f.stop()
	f.wg.Wait()
	f.book.Close()
}

// sweeps forgets files whose time is over, until ctx ends.
func (f *Files) sweeps(ctx context.Context) {
	tick := time.NewTicker(min(f.opts.Expiry, time.Minute))
	defer tick.Stop()
	for {
		f.Sweep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Sweep forgets the files whose time is over.
func (f *Files) Sweep(ctx context.Context) {
	now := f.opts.Clock()
	err := f.forget(ctx, func(k *kept) bool { return !now.Before(k.Expires) })
	if err != nil && ctx.Err() == nil { // the next sweep tries again
		f.opts.Logger.Warn("an uploaded file whose time is over could not be removed yet", "err", err)
	}
}

// forget removes the files that are to go.
func (f *Files) forget(ctx context.Context, goes func(*kept) bool) error {
	var all []*fileEntity
	f.book.Each(func(x *fileEntity) {
		if k := x.State(); k != nil && goes(k) {
			all = append(all, x)
		}
	})
	for _, x := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := x.Remove(ctx, nil); err != nil {
			return fmt.Errorf("remove file %s: %w", x.Key(), err)
		}
	}
	return nil
}

// Put keeps what r says as a file of a principal. Without a type, or with one
// that says nothing, the content decides.
func (f *Files) Put(ctx context.Context, who *auth.Principal, name, kind string, r io.Reader) (File, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(f.opts.MaxBytes)+1))
	switch {
	case err != nil:
		return File{}, fmt.Errorf("read the file: %w", err)
	case len(data) > f.opts.MaxBytes:
		return File{}, &fault.Error{Kind: fault.TooLarge, Subject: cleanName(name), Msg: fmt.Sprintf("the file has more than %d bytes", f.opts.MaxBytes), Hint: "Upload a smaller one, or a part of it."}
	case len(data) == 0:
		return File{}, &fault.Error{Kind: fault.InvalidParams, Subject: cleanName(name), Msg: "the file is empty", Hint: "Send its content as the body, or as a part of a form."}
	}
	sum := sha256.Sum256(data)
	k := &kept{Principal: who.Name, Hash: hex.EncodeToString(sum[:]), File: File{
		ID: "file_" + strings.ToLower(rand.Text()), Name: cleanName(name), Size: len(data), Type: fileType(kind, data),
		Expires: f.opts.Clock().Add(f.opts.Expiry).UTC().Truncate(time.Second),
	}}
	if err := f.reserve(k); err != nil {
		return File{}, err
	}
	defer f.came(k)
	if err := f.write(ctx, k, data); err != nil {
		return File{}, err
	}
	return k.File, nil
}

// reserve takes note that a file is coming if its principal may have one more. It
// counts from now on, so that uploads at the same time cannot pass the bounds
// together.
func (f *Files) reserve(k *kept) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	files, size := 1, k.Size
	count := func(other *kept) {
		if other != nil && other.Principal == k.Principal {
			files, size = files+1, size+other.Size
		}
	}
	for _, other := range f.coming {
		count(other)
	}
	f.book.Each(func(x *fileEntity) {
		if f.coming[x.Key()] == nil {
			count(x.State())
		}
	})
	switch hint := "Delete one, or wait: files are kept for " + f.opts.Expiry.String() + "."; {
	case files > f.opts.Max:
		return &fault.Error{Kind: fault.Limit, Subject: k.Name, Msg: fmt.Sprintf("there are %d files already, which is as many as may be", f.opts.Max), Hint: hint}
	case size > f.opts.Total:
		return &fault.Error{Kind: fault.Limit, Subject: k.Name, Msg: fmt.Sprintf("with this file there would be %d bytes of files; %d may be", size, f.opts.Total), Hint: hint}
	}
	f.coming[k.ID] = k
	return nil
}

// came takes note that a file is there, or will never be.
func (f *Files) came(k *kept) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.coming, k.ID)
}

func (f *Files) write(ctx context.Context, k *kept, data []byte) error {
	x := f.book.At(k.ID)
	if _, _, err := x.Commit(ctx, func(*kept) (*kept, []byte, error) { return k, nil, nil }); err != nil {
		return fmt.Errorf("keep file %s: %w", k.Name, err)
	}
	if _, err := f.blobs.Put(ctx, k.ID, data); err != nil {
		err = fmt.Errorf("keep the content of file %s: %w", k.Name, err)
		if gone := x.Remove(ctx, nil); gone != nil { // then it goes when its time is over
			f.opts.Logger.Warn("an uploaded file that could not be kept could not be removed yet", "err", gone)
		}
		return err
	}
	return nil
}

// List returns the files of a principal, those that expire first in front.
func (f *Files) List(who *auth.Principal) []File {
	now := f.opts.Clock()
	out := []File{}
	f.mu.Lock()
	f.book.Each(func(x *fileEntity) {
		k := x.State()
		if k != nil && f.coming[x.Key()] == nil && k.Principal == who.Name && now.Before(k.Expires) {
			out = append(out, k.File)
		}
	})
	f.mu.Unlock()
	slices.SortFunc(out, func(a, b File) int {
		if c := a.Expires.Compare(b.Expires); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// find returns a file of a principal. Another hub may have taken it a moment
// ago, so the log is asked for one that is not known.
func (f *Files) find(ctx context.Context, who *auth.Principal, id string) (*kept, error) {
	if !validFileID(id) {
		return nil, f.unknown(id)
	}
	k, err := f.book.At(id).Latest(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for file %s: %w", id, err)
	}
	if k == nil || k.ID != id || k.Principal != who.Name || !f.opts.Clock().Before(k.Expires) {
		return nil, f.unknown(id)
	}
	return k, nil
}

func (f *Files) unknown(id string) error {
	return &fault.Error{Kind: fault.ResourceNotFound, Msg: fmt.Sprintf("there is no file %q, or its time is over", cut(id, 64)),
		Hint: fmt.Sprintf("Upload it by POST /api/files and use the id of the answer; files are kept for %s.", f.opts.Expiry)}
}

// Read returns a file of a principal and its content.
func (f *Files) Read(ctx context.Context, who *auth.Principal, id string) (File, []byte, error) {
	k, err := f.find(ctx, who, id)
	if err != nil {
		return File{}, nil, err
	}
	data, err := f.blobs.Get(ctx, k.ID, k.Hash)
	if errors.Is(err, journal.ErrNotFound) {
		return File{}, nil, f.unknown(id)
	}
	if err != nil {
		return File{}, nil, fmt.Errorf("read file %s: %w", id, err)
	}
	return k.File, data, nil
}

// Delete forgets a file of a principal.
func (f *Files) Delete(ctx context.Context, who *auth.Principal, id string) error {
	if _, err := f.find(ctx, who, id); err != nil {
		return err
	}
	if err := f.book.At(id).Remove(ctx, nil); err != nil {
		return fmt.Errorf("remove file %s: %w", id, err)
	}
	return nil
}

// Forget forgets the files of a principal.
func (f *Files) Forget(ctx context.Context, principal string) error {
	if err := f.book.Current(ctx, time.Now()); err != nil {
		return fmt.Errorf("forget the files of %s: %w", principal, err)
	}
	return f.forget(ctx, func(k *kept) bool { return k.Principal == principal })
}

// validFileID reports whether an id may be a part of a subject.
func validFileID(id string) bool {
	rest, ok := strings.CutPrefix(id, "file_")
	return ok && rest != "" && len(rest) <= 64 && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

const fileNameBytes = 200

// cleanName is a file's name as it may be shown to people and models: without
// folders and without what is not printed.
func cleanName(name string) string {
	name = strings.ToValidUTF8(name[strings.LastIndexAny(name, `/\`)+1:], "\uFFFD")
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == '"' {
			return -1
		}
		return r
	}, name))
	if name = cut(name, fileNameBytes); name == "" || strings.Trim(name, ".") == "" {
		return "unnamed"
	}
	return name
}

// cut returns at most n bytes of a text, and no half of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// fileType is the media type of a file. What programs say if nobody told them
// says nothing.
func fileType(said string, data []byte) string {
	t, params, err := mime.ParseMediaType(said)
	switch t {
	case "", "application/octet-stream", "application/x-www-form-urlencoded":
	default:
		if full := mime.FormatMediaType(t, params); err == nil && len(full) <= 127 && full != "" {
			return full
		}
	}
	if t = http.DetectContentType(data); t == "application/octet-stream" && isText(data) {
		return "text/plain; charset=utf-8"
	}
	return t
}
