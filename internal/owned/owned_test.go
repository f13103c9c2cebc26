package owned_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/owned"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func folder(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func put(t *testing.T, path string, mode fs.FileMode) string {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte("sesame"), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	dir := folder(t, 0o755)
	for mode, ok := range map[fs.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o620: false, 0o666: false} {
		got, err := owned.Read(put(t, filepath.Join(dir, "token"), mode))
		if (err == nil) != ok || ok && string(got) != "sesame" {
			t.Errorf("mode %04o: %q, %v", mode, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "token") || !strings.Contains(err.Error(), "chmod 600") || strings.Contains(err.Error(), "sesame")) {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	if _, err := owned.Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	for _, mode := range []fs.FileMode{0o777, 0o770, 0o702} {
		if _, err := owned.Read(put(t, filepath.Join(folder(t, mode), "token"), 0o600)); err == nil || !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("in a folder with mode %04o: %v", mode, err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Chmod(filepath.Join(dir, "token"), 0o600), os.Symlink("token", link)); err != nil {
		t.Fatal(err)
	}
	if got, err := owned.Read(link); err != nil || string(got) != "sesame" {
		t.Errorf("a link of ours: %q, %v", got, err)
	}
}

func TestTighten(t *testing.T) {
	for mode, want := range map[fs.FileMode]bool{0o777: true, 0o775: true, 0o755: false, 0o700: false} {
		dir := folder(t, mode)
		put(t, filepath.Join(dir, "token"), 0o600)
		did, err := owned.Tighten(dir)
		if err != nil || did != want {
			t.Errorf("mode %04o: %v, %v", mode, did, err)
		}
		if err := owned.Folder(dir); err != nil {
			t.Errorf("mode %04o, then: %v", mode, err)
		}
	}
}

// Another user's folder, file or link is not ours whatever its mode.
func TestForeignOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const other = 12345
	dir := folder(t, 0o700)
	token := put(t, filepath.Join(dir, "token"), 0o600)
	foreign := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "12345") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Chown(token, other, other); err != nil {
		t.Fatal(err)
	}
	_, err := owned.Read(token)
	foreign("a foreign file", err)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err = owned.Tighten(dir)
	foreign("a foreign file in a folder that was open", err)
	target, link := put(t, filepath.Join(dir, "real"), 0o600), filepath.Join(dir, "link")
	if err := errors.Join(os.Chmod(dir, 0o700), os.Symlink(target, link), os.Lchown(link, other, other)); err != nil {
		t.Fatal(err)
	}
	_, err = owned.Read(link)
	foreign("a link that somebody planted", err)
	if err := os.Chown(dir, other, other); err != nil {
		t.Fatal(err)
	}
	foreign("a foreign folder", owned.Folder(dir))
	_, err = owned.Tighten(dir)
	foreign("a foreign folder", err)
	_, err = owned.Read(target)
	foreign("a file in a foreign folder", err)
}
