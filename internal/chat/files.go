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
// forgotten when its time is over. With a store, files outlive the process.
type Files struct {
	opts  FileOptions
	log   *store.Log // nil if files are kept in memory
	blobs *store.Blobs
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu    sync.Mutex
	known map[string]*kept
}

// kept is the entry of a file in the log. It is written before the content and
// removed after it, so that no content is left that nobody knows of; a file
// whose content is not there is one whose writer died.
type kept struct {
	File
	Principal string `json:"principal"`
	Hash      string `json:"hash"`

	data []byte // without a store
}

const filesName = "file"

func fileSubject(id string) string { return "evt.file." + id }

// OpenFiles returns the files that st holds; without a store they are kept in
// memory. Close ends it; the store stays open.
func OpenFiles(ctx context.Context, st *store.Store, o FileOptions) (*Files, error) {
	o.defaults()
	f := &Files{opts: o, known: map[string]*kept{}}
	if st != nil {
		var err error
		if f.log, err = st.Log(ctx, store.LogOptions{Name: filesName, Subjects: []string{fileSubject("*")}}); err != nil {
			return nil, fmt.Errorf("open the uploaded files: %w", err)
		}
		if f.blobs, err = st.Blobs(ctx, "fileblob"); err != nil {
			return nil, fmt.Errorf("open the contents of uploaded files: %w", err)
		}
		if err := f.log.Scan(ctx, "", 0, f.replay); err != nil {
			return nil, fmt.Errorf("read the uploaded files: %w", err)
		}
	}
	ctx, f.stop = context.WithCancel(context.Background())
	f.wg.Go(func() { f.sweeps(ctx) })
	return f, nil
}

// Close stops sweeping. What was stored stays.
func (f *Files) Close() {
	f.stop()
	f.wg.Wait()
}

// replay takes one entry of the log in. One that cannot be read is told of, and
// costs nothing but itself.
func (f *Files) replay(e store.Entry) error {
	k := &kept{}
	if err := json.Unmarshal(e.Data, k); err != nil || fileSubject(k.ID) != e.Subject {
		f.opts.Logger.Error("the entry of an uploaded file cannot be read", "seq", e.Seq, "err", err)
		return nil
	}
	f.known[k.ID] = k
	return nil
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
	f.mu.Lock()
	var over []string
	for id, k := range f.known {
		if !now.Before(k.Expires) {
			over = append(over, id)
		}
	}
	f.mu.Unlock()
	for _, id := range over {
		if err := f.forget(ctx, id); err != nil && ctx.Err() == nil {
			f.opts.Logger.Warn("an uploaded file whose time is over could not be removed yet", "err", err)
			return // the next sweep tries again
		}
	}
}

// forget removes a file: its content first.
func (f *Files) forget(ctx context.Context, id string) error {
	if f.log != nil {
		if err := f.blobs.Purge(ctx, id); err != nil {
			return fmt.Errorf("remove the content of file %s: %w", id, err)
		}
		if err := f.log.Purge(ctx, fileSubject(id)); err != nil {
			return fmt.Errorf("remove file %s: %w", id, err)
		}
	}
	f.mu.Lock()
	delete(f.known, id)
	f.mu.Unlock()
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
	if err := f.write(ctx, k, data); err != nil {
		// Whatever of it was written goes when its time is over, but for who
		// waits for the answer there is no such file.
		f.mu.Lock()
		k.Principal = ""
		f.mu.Unlock()
		return File{}, err
	}
	return k.File, nil
}

// reserve takes a file in if its principal may have one more. It counts from
// now on, so that uploads at the same time cannot pass the bounds together.
func (f *Files) reserve(k *kept) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	files, size := 1, k.Size
	for _, other := range f.known {
		if other.Principal == k.Principal {
			files, size = files+1, size+other.Size
		}
	}
	switch hint := "Delete one, or wait: files are kept for " + f.opts.Expiry.String() + "."; {
	case files > f.opts.Max:
		return &fault.Error{Kind: fault.Limit, Subject: k.Name, Msg: fmt.Sprintf("there are %d files already, which is as many as may be", f.opts.Max), Hint: hint}
	case size > f.opts.Total:
		return &fault.Error{Kind: fault.Limit, Subject: k.Name, Msg: fmt.Sprintf("with this file there would be %d bytes of files; %d may be", size, f.opts.Total), Hint: hint}
	}
	f.known[k.ID] = k
	return nil
}

func (f *Files) write(ctx context.Context, k *kept, data []byte) error {
	if f.log == nil {
		f.mu.Lock()
		k.data = data
		f.mu.Unlock()
		return nil
	}
	entry, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode the entry of file %s: %w", k.Name, err)
	}
	if _, err := f.log.Append(ctx, fileSubject(k.ID), entry, 0); err != nil {
		return fmt.Errorf("keep file %s: %w", k.Name, err)
	}
	if _, err := f.blobs.Put(ctx, k.ID, data); err != nil {
		return fmt.Errorf("keep the content of file %s: %w", k.Name, err)
	}
	return nil
}

// List returns the files of a principal, those that expire first in front.
func (f *Files) List(who *auth.Principal) []File {
	now := f.opts.Clock()
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []File{}
	for _, k := range f.known {
		if k.Principal == who.Name && now.Before(k.Expires) {
			out = append(out, k.File)
		}
	}
	slices.SortFunc(out, func(a, b File) int {
		if c := a.Expires.Compare(b.Expires); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// find returns a file of a principal. In a cluster another hub may have taken
// it, so that one that is not known is looked for in the log.
func (f *Files) find(ctx context.Context, who *auth.Principal, id string) (kept, error) {
	f.mu.Lock()
	k := f.known[id]
	var got kept
	if k != nil {
		got = *k
	}
	f.mu.Unlock()
	if k == nil && f.log != nil && validFileID(id) {
		e, err := f.log.Last(ctx, fileSubject(id))
		switch {
		case err == nil && json.Unmarshal(e.Data, &got) != nil:
			got = kept{}
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return kept{}, fmt.Errorf("look for file %s: %w", id, err)
		}
	}
	if got.ID == "" || got.Principal != who.Name || !f.opts.Clock().Before(got.Expires) {
		return kept{}, f.unknown(id)
	}
	return got, nil
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
	if f.log == nil {
		return k.File, k.data, nil
	}
	data, err := f.blobs.Get(ctx, k.ID, k.Hash)
	if errors.Is(err, store.ErrNotFound) {
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
	return f.forget(ctx, id)
}

// Forget forgets the files of a principal.
func (f *Files) Forget(ctx context.Context, principal string) error {
	if err := f.catchUp(ctx); err != nil {
		return fmt.Errorf("look for the files of others: %w", err)
	}
	f.mu.Lock()
	var ids []string
	for id, k := range f.known {
		if k.Principal == principal {
			ids = append(ids, id)
		}
	}
	f.mu.Unlock()
	for _, id := range ids {
		if err := f.forget(ctx, id); err != nil {
			return fmt.Errorf("forget file %s: %w", id, err)
		}
	}
	return nil
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
