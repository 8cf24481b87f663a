// Package record keeps what the wrapper judged, so that the hook can tell
// whether the runtime got the same.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/rootfile"
)

// Dir is where records lie. It doesn't survive a reboot, as containers don't.
const Dir = "/run/nodeadmit/records"

const version = 1

// Record says what was judged for one container.
type Record struct {
	Version int `json:"version"`
	// Root and ID are the runtime's --root and the container's id: together
	// they name a container.
	Root   string `json:"root"`
	ID     string `json:"id"`
	Bundle string `json:"bundle"`
	// Digest is that of the config.json as the runtime got it.
	Digest       string    `json:"digest"`
	JudgedAt     time.Time `json:"judgedAt"`
	PolicyDigest string    `json:"policyDigest,omitempty"`
}

// file is a name that no id can leave the directory by.
func file(dir, root, id string) string {
	sum := sha256.Sum256([]byte(root + "\x00" + id))
	return filepath.Join(dir, hex.EncodeToString(sum[:16])+".json")
}

// Write stores a record, whole or not at all. The directory is made if needed.
// Now and then it removes records whose bundle is gone.
func Write(dir string, r Record) error {
	r.Version = version
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	name := file(dir, r.Root, r.ID)
	if err := rootfile.Write(name, data); err != nil {
		return err
	}
	if filepath.Base(name)[0] == '0' { // one in 16
		sweep(dir)
	}
	return nil
}

// Read returns the record of a container.
func Read(dir, root, id string) (Record, error) {
	if err := rootfile.CheckDir(dir); err != nil {
		return Record{}, err
	}
	name := file(dir, root, id)
	data, _, err := rootfile.Read(name, maxRecord, rootfile.Check)
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("%s: %w", name, err)
	}
	if r.Version != version || r.Root != root || r.ID != id {
		return Record{}, fmt.Errorf("%s: is another container's record", name)
	}
	return r, nil
}

// maxRecord bounds one record, in bytes.
const maxRecord = 64 << 10

// sweepAbove is how many records may lie there before gone containers' are
// looked for.
const sweepAbove = 512

// sweep removes the records of bundles that are gone, if there are many.
// Nothing else removes them: a delete goes to the runtime at once.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= sweepAbove {
		return
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		var r Record
		data, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if _, gone := os.Lstat(r.Bundle); err != nil || errors.Is(gone, fs.ErrNotExist) {
			_ = os.Remove(name)
		}
	}
}
