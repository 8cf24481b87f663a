package policybundle

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeadmit/nodeadmit/internal/rootfile"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// fetchTime is how long a download may take.
const fetchTime = time.Minute

// Fetch gets a bundle of a file or an https URL. roots are the authorities of the
// server's certificate, or nil for the system's.
func Fetch(ctx context.Context, source string, roots *x509.CertPool) ([]byte, error) {
	if !strings.Contains(source, "://") {
		data, _, err := rootfile.Read(source, MaxSize, nil)
		return data, err
	}
	u, err := url.Parse(source)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" {
		return nil, fmt.Errorf("%s: want a file or an https URL", u.Redacted())
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	client := &http.Client{Transport: transport, Timeout: fetchTime, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != "https" || len(via) > 5 {
			return fmt.Errorf("it redirects to %s: want https, and at most 5 times", r.URL.Redacted())
		}
		return nil
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: answers %s", u.Redacted(), resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%s: is larger than %d bytes", u.Redacted(), MaxSize)
	}
	return data, nil
}

// Options say how a bundle is put in place.
type Options struct {
	// Dir is the policy directory that the bundle becomes.
	Dir string
	// StateDir keeps which bundle that was.
	StateDir string
	// Keys are those of which one must have signed.
	Keys []ed25519.PublicKey
	// Check judges files before and after they are in place: whether they load.
	Check func(policy.Origin) error
	// AllowOlder takes a version below the one in place.
	AllowOlder bool
	// Replace puts aside a directory that no bundle made.
	Replace bool
	// DryRun changes nothing.
	DryRun bool
}

// Result is what was done.
type Result struct {
	Version  uint64   `json:"version"`
	Previous uint64   `json:"previousVersion,omitempty"`
	Digest   string   `json:"digest"`
	Dir      string   `json:"dir"`
	Files    []string `json:"files"`
	// Changed is false if this bundle was in place already.
	Changed bool `json:"changed"`
	// Aside is where a directory that no bundle made lies now.
	Aside string `json:"aside,omitempty"`
}

// state is which bundle is in place. It is written before the directory is swapped:
// both its digests are of directories that are ours.
type state struct {
	Version        uint64 `json:"version"`
	Digest         string `json:"digest"`
	PolicyDigest   string `json:"policyDigest"`
	PreviousDigest string `json:"previousPolicyDigest,omitempty"`
}

const (
	stateName = "policy-bundle.json"
	lockName  = "policy-bundle.lock"
)

// Put verifies a bundle and makes it the policy directory, whole or not at all. A
// bundle that doesn't load leaves all as it was.
func Put(name string, data []byte, o Options) (r *Result, err error) {
	b, err := Read(name, data, o.Keys)
	if err != nil {
		return nil, err
	}
	if dir, err := filepath.EvalSymlinks(o.Dir); err == nil {
		o.Dir = dir
	}
	unlock, err := lock(o)
	if err != nil {
		return nil, err
	}
	defer unlock()
	was, err := readState(o.StateDir)
	if err != nil {
		return nil, err
	}
	now, foreign, err := current(o.Dir, was)
	if err != nil {
		return nil, err
	}
	r = &Result{Version: b.Version, Previous: was.Version, Digest: b.Digest, Dir: o.Dir}
	for _, f := range b.Files {
		r.Files = append(r.Files, f.Name)
	}
	switch {
	case b.Version < was.Version && !o.AllowOlder:
		return nil, fmt.Errorf("%s: is version %d, and version %d is in place: an older one is taken with --allow-older alone", name, b.Version, was.Version)
	case b.Version == was.Version && b.Digest != was.Digest && !o.AllowOlder:
		return nil, fmt.Errorf("%s: is another bundle of version %d than the one in place: give it a higher version", name, b.Version)
	case b.Digest == was.Digest && now == was.PolicyDigest:
		return r, nil
	case foreign && !o.Replace:
		return nil, fmt.Errorf("%s: holds files that no bundle brought, or that were changed since: put them into the bundle, or have them put aside with --replace", o.Dir)
	}
	if err := o.Check(b); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r.Changed = true
	if o.DryRun {
		return r, nil
	}
	sources, _ := b.ReadSources() // never fails
	next := state{Version: b.Version, Digest: b.Digest, PolicyDigest: sources.Digest, PreviousDigest: now}
	return r, o.swap(b, r, was, next, foreign)
}

// current returns the digest of the directory, or "" if there is none or nothing is
// in it, and whether somebody else than us filled it.
func current(dir string, was state) (digest string, foreign bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	s, err := policy.ReadSources(dir, policy.LoadOptions{})
	if err != nil {
		return "", false, err
	}
	ours := len(s.Files) == len(entries) && (s.Digest == was.PolicyDigest || s.Digest == was.PreviousDigest)
	return s.Digest, !ours, nil
}

// swap writes the bundle beside the directory, exchanges the two, and looks whether
// what is in place now loads.
func (o *Options) swap(b *Bundle, r *Result, was, next state, foreign bool) error {
	parent := filepath.Dir(o.Dir)
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(o.Dir)+".new-*")
	if err != nil {
		return err
	}
	made := true // what lies in temp is ours to remove
	defer func() {
		if made {
			_ = os.RemoveAll(temp)
		}
	}()
	if err := fill(temp, b); err != nil {
		return err
	}
	if err := writeState(o.StateDir, next); err != nil {
		return err
	}
	back, err := exchange(temp, o.Dir)
	if err != nil {
		return errors.Join(err, writeState(o.StateDir, was))
	}
	if err := o.Check(policy.Dir{Name: o.Dir, LoadOptions: policy.LoadOptions{RequireRoot: true}}); err != nil {
		err = fmt.Errorf("%s: doesn't load where it is, the one before is back: %w", b.Name, err)
		if berr := back(); berr != nil {
			made = false
			return errors.Join(err, berr)
		}
		return errors.Join(err, writeState(o.StateDir, was))
	}
	if foreign {
		r.Aside = o.Dir + ".replaced-" + time.Now().UTC().Format("20060102T150405Z")
		made = false
		if err := os.Rename(temp, r.Aside); err != nil {
			return err
		}
	}
	return syncDir(parent)
}

func fill(dir string, b *Bundle) error {
	for _, f := range b.Files {
		out, err := os.OpenFile(filepath.Join(dir, f.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = out.Write(f.data)
		if err = errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// exchange puts temp in the place of dir and what was there in temp's, at once. back
// undoes it.
func exchange(temp, dir string) (back func() error, err error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return func() error { return os.Rename(dir, temp) }, os.Rename(temp, dir)
	}
	both := func() error {
		if err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE); err != nil {
			return fmt.Errorf("exchange %s and %s: %w", temp, dir, err)
		}
		return nil
	}
	return both, both()
}

// lock keeps two pulls from meeting. A dry run needs no place to write in.
func lock(o Options) (unlock func(), err error) {
	if o.DryRun {
		return func() {}, nil
	}
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(o.StateDir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: another pull is at work: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func readState(dir string) (state, error) {
	var s state
	name := filepath.Join(dir, stateName)
	data, _, err := rootfile.Read(name, 1<<20, rootfile.Check)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("%s: which version is in place can't be told: %w", name, err)
	}
	return s, nil
}

func writeState(dir string, s state) error {
	name := filepath.Join(dir, stateName)
	if s == (state{}) {
		err := os.Remove(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return rootfile.Write(name, append(data, '\n'))
}
