// Package policystore gives the policy that is in force: the policy directory
// if it loads, and else the last one that did.
//
// When a directory first loads, a compiled copy is left in a directory that
// only root can write. Later starts read that, as long as it is of the same
// files, so that YAML isn't parsed for every container. A directory that no
// longer loads leaves the last good copy in force, loudly: kube-apiserver does
// the same with its manifests on disk (KEP 5793).
package policystore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/rootfile"
	"github.com/nodeadmit/nodeadmit/internal/version"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// DefaultDir is where compiled copies lie.
const DefaultDir = "/var/lib/nodeadmit/policy"

// Loaded is the policy that is in force.
type Loaded struct {
	Set *policy.Set
	// Stale is why the directory didn't load, if Set is the last good one.
	Stale error
	// Since is when the last good copy was made, if Set is it.
	Since time.Time
	// Uncompiled is why no copy could be left. It changes no decision.
	Uncompiled error
}

// Load gives the policy of policyDir. An error means that there is none.
func Load(policyDir, storeDir string) (*Loaded, error) {
	sources, err := policy.ReadSources(policyDir, policy.LoadOptions{RequireRoot: true})
	file := fileFor(policyDir, storeDir)
	if err == nil {
		if set, _, cerr := read(file); cerr == nil && set.Digest == sources.Digest {
			return &Loaded{Set: set}, nil
		}
		var (
			set  *policy.Set
			docs []policy.Documents
		)
		if set, docs, err = sources.Parse(); err == nil {
			return &Loaded{Set: set, Uncompiled: write(file, sources.Digest, docs)}, nil
		}
	}
	set, since, cerr := read(file)
	if cerr != nil {
		return nil, err
	}
	return &Loaded{Set: set, Stale: err, Since: since}, nil
}

// fileFor names the copy of one policy directory.
func fileFor(policyDir, storeDir string) string {
	sum := sha256.Sum256([]byte(policyDir))
	return filepath.Join(storeDir, hex.EncodeToString(sum[:8])+".compiled")
}

// header begins every copy: a copy of another version is not used.
func header() []byte { return []byte("nodeadmit compiled policy " + version.Version + "\n") }

// maxCopy bounds a copy, in bytes.
const maxCopy = 64 << 20

// read returns a copy that root wrote, of this version, with its own digest
// right.
func read(file string) (*policy.Set, time.Time, error) {
	if err := rootfile.CheckDir(filepath.Dir(file)); err != nil {
		return nil, time.Time{}, err
	}
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return nil, time.Time{}, fmt.Errorf("%s: is no regular file", file)
	}
	data, info, err := rootfile.Read(file, maxCopy, rootfile.Check)
	if err != nil {
		return nil, time.Time{}, err
	}
	body, ok := bytes.CutPrefix(data, header())
	if !ok || len(body) < sha256.Size {
		return nil, time.Time{}, fmt.Errorf("%s: is of another version", file)
	}
	sum := sha256.Sum256(body[sha256.Size:])
	if !bytes.Equal(sum[:], body[:sha256.Size]) {
		return nil, time.Time{}, fmt.Errorf("%s: is damaged", file)
	}
	set, err := policy.FromCompiled(file, body[sha256.Size:])
	return set, info.ModTime(), err
}

// write leaves a copy, whole or not at all.
func write(file, digest string, docs []policy.Documents) error {
	body, err := policy.Compile(digest, docs)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	return rootfile.Write(file, bytes.Join([][]byte{header(), sum[:], body}, nil))
}
