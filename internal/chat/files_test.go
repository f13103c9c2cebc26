package chat

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

var (
	ann = &auth.Principal{Name: "ann", Scopes: auth.Scopes{"*"}}
	bob = &auth.Principal{Name: "bob", Scopes: auth.Scopes{"*"}}
)

// hands is a clock that the test moves.
type hands struct {
	mu  sync.Mutex
	now time.Time
}

func (h *hands) time() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hands) move(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func files(t *testing.T, st *store.Store, o FileOptions) *Files {
	t.Helper()
	f, err := OpenFiles(t.Context(), st, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func upload(t *testing.T, f *Files, who *auth.Principal, name, content string) File {
	t.Helper()
	got, err := f.Put(t.Context(), who, name, "", strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// everyStore runs a test with files in memory and in a store.
func everyStore(t *testing.T, test func(t *testing.T, st *store.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, nil) })
	t.Run("store", func(t *testing.T) { test(t, storetest.Open(t, store.Options{})) })
}

func TestFiles(t *testing.T) {
	everyStore(t, func(t *testing.T, st *store.Store) {
		f := files(t, st, FileOptions{})
		big := strings.Repeat("0123456789", FileBytes/10)
		a, b := upload(t, f, ann, "../notes of\x00 may.txt", "hello"), upload(t, f, ann, "big", big)
		if a.Name != "notes of may.txt" || a.Size != 5 || a.Type != "text/plain; charset=utf-8" || a.ID == b.ID || len(a.ID) < 30 {
			t.Errorf("%+v", a)
		}
		for id, want := range map[string]string{a.ID: "hello", b.ID: big} {
			if _, data, err := f.Read(t.Context(), ann, id); err != nil || string(data) != want {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		}
		if diff := cmp.Diff([]File{a, b}, f.List(ann), cmp.Transformer("set", func(l []File) map[string]File {
			m := map[string]File{}
			for _, x := range l {
				m[x.ID] = x
			}
			return m
		})); diff != "" {
			t.Error(diff)
		}
		// To others it does not exist, whatever they try.
		_, _, errBob := f.Read(t.Context(), bob, a.ID)
		_, _, errNone := f.Read(t.Context(), bob, strings.ToLower(a.ID[:len(a.ID)-1])+"0")
		if !fault.Is(errBob, fault.ResourceNotFound) || !fault.Is(errNone, fault.ResourceNotFound) || len(f.List(bob)) != 0 {
			t.Errorf("%v, %v, %v", errBob, errNone, f.List(bob))
		}
		if err := f.Delete(t.Context(), bob, a.ID); !fault.Is(err, fault.ResourceNotFound) {
			t.Error(err)
		}
		for _, odd := range []string{"", "file_", "file_*", "file_>", "evt.file.*", "file_" + strings.Repeat("a", 1000), "file_a b"} {
			if _, _, err := f.Read(t.Context(), ann, odd); !fault.Is(err, fault.ResourceNotFound) || len(err.Error()) > 200 {
				t.Errorf("%q: %v", odd, err)
			}
		}
		if err := f.Delete(t.Context(), ann, a.ID); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Read(t.Context(), ann, a.ID); !fault.Is(err, fault.ResourceNotFound) || len(f.List(ann)) != 1 {
			t.Errorf("after it was deleted: %v", err)
		}
	})
}

func TestFilesAreBounded(t *testing.T) {
	f := files(t, nil, FileOptions{MaxBytes: 10, Total: 25, Max: 3})
	for want, content := range map[fault.Kind]string{fault.TooLarge: "01234567890", fault.InvalidParams: ""} {
		if _, err := f.Put(t.Context(), ann, "x", "", strings.NewReader(content)); !fault.Is(err, want) {
			t.Errorf("%q: %v", content, err)
		}
	}
	// However many come at once, the bound holds.
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for range 20 {
		wg.Go(func() {
			_, err := f.Put(t.Context(), ann, "x", "", strings.NewReader("0123456789"))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				taken++
			} else if !fault.Is(err, fault.Limit) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if taken != 2 {
		t.Errorf("%d files of 10 bytes where 25 bytes may be", taken)
	}
	upload(t, f, ann, "small", "x")
	if _, err := f.Put(t.Context(), ann, "x", "", strings.NewReader("x")); !fault.Is(err, fault.Limit) || !strings.Contains(err.Error(), "3 files already") {
		t.Error(err)
	}
	upload(t, f, bob, "his", "x") // who has none is not bounded by her files
}

// A file outlives the process that took it, until its time is over; then
// nothing of it is left.
func TestFilesOutliveTheProcessAndExpire(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	clock := &hands{now: time.Now()}
	o := FileOptions{Expiry: time.Hour, Clock: clock.time}
	first := files(t, st, o)
	a := upload(t, first, ann, "a.txt", strings.Repeat("long ", 300_000))
	first.Close()

	second := files(t, st, o)
	if _, data, err := second.Read(t.Context(), ann, a.ID); err != nil || len(data) == 0 {
		t.Error(err)
	}
	clock.move(59 * time.Minute)
	second.Sweep(t.Context())
	if _, _, err := second.Read(t.Context(), ann, a.ID); err != nil {
		t.Error(err)
	}
	clock.move(2 * time.Minute)
	if _, _, err := second.Read(t.Context(), ann, a.ID); !fault.Is(err, fault.ResourceNotFound) {
		t.Errorf("before it is swept: %v", err)
	}
	second.Sweep(t.Context())
	log, err := st.Log(t.Context(), store.LogOptions{Name: fileLog, Subjects: []string{fileSubject + "*"}})
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := st.Blobs(t.Context(), "fileblob")
	if err != nil {
		t.Fatal(err)
	}
	await.NoError(t, "nothing of it is left", func() error {
		second.book.Bury(t.Context(), time.Now())
		entries, err := log.Usage(t.Context())
		contents, err2 := blobs.Usage(t.Context())
		if entries.Entries+contents.Entries != 0 {
			return fmt.Errorf("entries %+v, contents %+v", entries, contents)
		}
		return errors.Join(err, err2)
	})
}

// What is brought to one hub is listed, read and deleted at another, and what is
// deleted is gone at both.
func TestHubsShareFiles(t *testing.T) {
	server := storetest.StartServer(t)
	open := func() *Files {
		return files(t, storetest.Open(t, store.Options{URL: server.URL}), FileOptions{Max: 2})
	}
	one, other := open(), open()
	a := upload(t, one, ann, "a.txt", strings.Repeat("long ", 300_000))
	if _, data, err := other.Read(t.Context(), ann, a.ID); err != nil || len(data) != 1_500_000 {
		t.Fatalf("right after it was brought: %d bytes, %v", len(data), err)
	}
	if _, _, err := other.Read(t.Context(), bob, a.ID); !fault.Is(err, fault.ResourceNotFound) {
		t.Errorf("somebody else: %v", err)
	}
	await.Until(t, "the other lists it", func() bool { return len(other.List(ann)) == 1 })
	upload(t, other, ann, "b.txt", "b")
	await.Until(t, "the first lists both", func() bool { return len(one.List(ann)) == 2 })
	if _, err := one.Put(t.Context(), ann, "c.txt", "", strings.NewReader("c")); !fault.Is(err, fault.Limit) {
		t.Errorf("one that another hub has does not count: %v", err)
	}
	if err := other.Delete(t.Context(), ann, a.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := one.Read(t.Context(), ann, a.ID); !fault.Is(err, fault.ResourceNotFound) {
		t.Errorf("right after it was deleted at the other: %v", err)
	}
	if err := one.Forget(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "no hub has any", func() bool { return len(one.List(ann))+len(other.List(ann)) == 0 })
	if again := open(); len(again.List(ann)) != 0 {
		t.Errorf("after a restart: %v", again.List(ann))
	}
}

// A file of d6a0795 is there, can be read, and goes.
func TestFilesOfTheFirstRelease(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	log, err := st.Log(t.Context(), store.LogOptions{Name: fileLog, Subjects: []string{fileSubject + "*"}})
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := st.Blobs(t.Context(), "fileblob")
	if err != nil {
		t.Fatal(err)
	}
	const id = "file_abc"
	hash, err := blobs.Put(t.Context(), id, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	entry := fmt.Sprintf(`{"id":%q,"name":"a.txt","size":5,"type":"text/plain","expires":%q,"principal":"ann","hash":%q}`, id, time.Now().Add(time.Hour).Format(time.RFC3339), hash)
	if _, err := log.Append(t.Context(), fileSubject+id, []byte(entry), 0); err != nil {
		t.Fatal(err)
	}
	f := files(t, st, FileOptions{})
	if _, data, err := f.Read(t.Context(), ann, id); err != nil || string(data) != "hello" {
		t.Errorf("%s, %v", data, err)
	}
	if err := f.Delete(t.Context(), ann, id); err != nil {
		t.Error(err)
	}
	if _, _, err := f.Read(t.Context(), ann, id); !fault.Is(err, fault.ResourceNotFound) {
		t.Error(err)
	}
}

func TestFileTypes(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	for _, tc := range []struct{ said, content, want string }{
		{"", "plain", "text/plain; charset=utf-8"},
		{"application/octet-stream", png, "image/png"},
		{"application/x-www-form-urlencoded", "a", "text/plain; charset=utf-8"}, // what curl says of a body
		{"Application/JSON", "{}", "application/json"},
		{"text/csv; charset=utf-8", "a,b", "text/csv; charset=utf-8"},
		{"nonsense//", "\x00\x01", "application/octet-stream"},
	} {
		if got := fileType(tc.said, []byte(tc.content)); got != tc.want {
			t.Errorf("%q of %q: %q, want %q", tc.said, tc.content, got, tc.want)
		}
	}
}

// What a model is told of a file.
func TestAttach(t *testing.T) {
	f := files(t, nil, FileOptions{})
	long := strings.Repeat("ä", FileText)
	for _, tc := range []struct{ name, content, want string }{
		{"a.txt", "Grüße", "File \"a.txt\" (text/plain; charset=utf-8, 7 bytes):\n\nGrüße"},
		{"p.png", "\x89PNG\r\n\x1a\n\x00", "File \"p.png\" (image/png, 9 bytes). It is not text, so its content is not shown here."},
		{"long.txt", long, fmt.Sprintf("File \"long.txt\" (text/plain; charset=utf-8, %d bytes). Its first %d bytes are:\n\n%s", len(long), FileText, long[:FileText])},
	} {
		got, err := f.Attach(t.Context(), ann, upload(t, f, ann, tc.name, tc.content).ID, nil)
		if err != nil || got != tc.want {
			t.Errorf("%.200q, %v", got, err)
		}
	}
	if _, err := f.Attach(t.Context(), bob, f.List(ann)[0].ID, nil); !fault.Is(err, fault.ResourceNotFound) {
		t.Error(err)
	}
}

// In a Session the whole of a file is a value, once however often it is named.
func TestAttachInASession(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r, err := session.Open(t.Context(), st, session.Options{MaxBytes: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := r.Bind(session.Binding{Principal: "ann", Name: "work"})
	if err != nil {
		t.Fatal(err)
	}
	f := files(t, st, FileOptions{})
	for _, tc := range []struct{ name, content, value, want string }{
		{"my notes.txt", "hello", "my_notes_txt", `"hello"`},
		{"2024.json", `{"a": [1]}`, "_2024_json", `{"a": [1]}`},
		{"bad.json", `{"a": [1]`, "bad_json", `"{\"a\": [1]"`},
		{"p.bin", "\x00\x01", "p_bin", `{"base64":"AAE=","name":"p.bin","size":2,"type":"application/octet-stream"}`},
		{"my notes.txt", "other", "my_notes_txt_5", `"other"`},
	} {
		id := upload(t, f, ann, tc.name, tc.content).ID
		for range 2 {
			if text, err := f.Attach(t.Context(), ann, id, s); err != nil || !strings.Contains(text, "@"+tc.value) {
				t.Errorf("%s: %q, %v", tc.name, text, err)
			}
		}
		v, err := s.Value(tc.value)
		if err != nil || v.Version != 1 {
			t.Errorf("%+v, %v", v, err)
			continue
		}
		if data, err := s.Data(t.Context(), v); err != nil || !bytes.Equal(data, []byte(tc.want)) {
			t.Errorf("%s is %s, %v", tc.value, data, err)
		}
	}
	// Where the Session has no room, the model is told all the same.
	text, err := f.Attach(t.Context(), ann, upload(t, f, ann, "large.txt", strings.Repeat("x", 20_000)).ID, s)
	if err != nil || strings.Contains(text, "@large") || !strings.Contains(text, "xxx") {
		t.Errorf("%.100q, %v", text, err)
	}
}
