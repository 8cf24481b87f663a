package spec

import (
	"crypto/sha256"
	"encoding/hex"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Document is a config.json that every runtime reads the same way.
type Document struct {
	Spec *specs.Spec
	// Raw is the file, byte for byte.
	Raw []byte
	// Digest is "sha256:" and the hexadecimal digest of Raw.
	Digest string
	// UnknownKeys are JSON paths ("linux.newThing", "mounts[3].x") of keys
	// that the runtime-spec version built in doesn't have.
	UnknownKeys []string
	// Dir is the bundle directory, absolute, or "" if read from a file alone.
	Dir string
}

// Rewritten returns the document with other bytes that say the same but for a
// hook, as [AddHook] gives them. They are not parsed again.
func (d *Document) Rewritten(raw []byte) *Document {
	out := *d
	out.Raw, out.Digest = raw, digestOf(raw)
	return &out
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
