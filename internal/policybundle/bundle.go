// Package policybundle reads and makes signed bundles of policy files, and puts them
// in the place of a policy directory.
//
// A bundle is a tar of regular files: manifest.json, which names version and files,
// each with its digest; manifest.sig, an Ed25519 signature (RFC 8032) of "nodeadmit
// policy bundle v1\n" and the manifest's bytes; then the files, as the manifest has
// them. Nothing of it is interpreted before its signature was verified.
package policybundle

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// APIVersion and Kind are a manifest's.
const (
	APIVersion = policy.APIVersion
	Kind       = "PolicyBundle"
)

// Limits of a bundle, in bytes and files.
const (
	MaxSize     = 16 << 20
	maxManifest = 1 << 20
	maxFiles    = 1000
)

const (
	manifestName  = "manifest.json"
	signatureName = "manifest.sig"
	// signed keeps a signature of ours from being one of anything else.
	signed = "nodeadmit policy bundle v1\n"
)

// Manifest is what is signed.
type Manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Version grows from bundle to bundle: a node takes no lower one.
	Version uint64 `json:"version"`
	Files   []File `json:"files"`
}

// File is one policy file of a bundle.
type File struct {
	Name string `json:"name"`
	// SHA256 is hexadecimal.
	SHA256 string `json:"sha256"`
	data   []byte
}

// Bundle is a bundle whose signature was verified.
type Bundle struct {
	Manifest
	// Digest is "sha256:" and a hexadecimal digest of the manifest.
	Digest string
	// Name is where it came from, for messages.
	Name string
}

// fileName is a plain name that the reader of a policy directory looks at.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.(yaml|yml|json)$`)

// Read verifies a bundle and reads it. One of the keys must have signed it.
func Read(name string, data []byte, keys []ed25519.PublicKey) (*Bundle, error) {
	b, err := read(data, keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b.Name = name
	return b, nil
}

func read(data []byte, keys []ed25519.PublicKey) (*Bundle, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("is larger than %d bytes", MaxSize)
	}
	in := tar.NewReader(bytes.NewReader(data))
	manifest, err := entry(in, manifestName, maxManifest)
	if err != nil {
		return nil, err
	}
	signature, err := entry(in, signatureName, ed25519.SignatureSize)
	if err != nil {
		return nil, err
	}
	if !verified(manifest, signature, keys) {
		return nil, errors.New("its signature is of none of the keys")
	}
	sum := sha256.Sum256(manifest)
	b := &Bundle{Digest: "sha256:" + hex.EncodeToString(sum[:])}
	d := json.NewDecoder(bytes.NewReader(manifest))
	d.DisallowUnknownFields()
	if err := d.Decode(&b.Manifest); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	for i := range b.Files {
		f := &b.Files[i]
		if f.data, err = entry(in, f.Name, policy.MaxFileSize); err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(f.data); hex.EncodeToString(sum[:]) != f.SHA256 {
			return nil, fmt.Errorf("%s: is not what was signed", f.Name)
		}
	}
	if _, err := in.Next(); err != io.EOF {
		return nil, errors.New("holds more than its manifest names")
	}
	return b, nil
}

func (b *Bundle) check() error {
	switch {
	case b.APIVersion != APIVersion || b.Kind != Kind:
		return fmt.Errorf("apiVersion %q, kind %q: want %s, %s", b.APIVersion, b.Kind, APIVersion, Kind)
	case b.Version == 0:
		return errors.New("version is missing: want a number from 1 on")
	case len(b.Files) == 0 || len(b.Files) > maxFiles:
		return fmt.Errorf("names %d files: want 1 to %d", len(b.Files), maxFiles)
	}
	seen := map[string]bool{}
	for _, f := range b.Files {
		switch {
		case !fileName.MatchString(f.Name) || f.Name == manifestName:
			return fmt.Errorf("file %q: want a plain name that ends in .yaml, .yml or .json", f.Name)
		case seen[f.Name]:
			return fmt.Errorf("file %q is named twice", f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

// entry reads the next file, which must be the one that is expected.
func entry(in *tar.Reader, name string, limit int64) ([]byte, error) {
	h, err := in.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s is missing", name)
	case err != nil:
		return nil, fmt.Errorf("is no tar: %w", err)
	case h.Typeflag != tar.TypeReg || h.Name != name:
		return nil, fmt.Errorf("has %q (type %q) where the file %s is expected", h.Name, h.Typeflag, name)
	case h.Size > limit:
		return nil, fmt.Errorf("%s: is larger than %d bytes", name, limit)
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

func verified(manifest, signature []byte, keys []ed25519.PublicKey) bool {
	message := append([]byte(signed), manifest...)
	for _, k := range keys {
		if ed25519.Verify(k, message, signature) {
			return true
		}
	}
	return false
}

// ReadSources returns the files as the reader of a directory would.
func (b *Bundle) ReadSources() (*policy.Sources, error) {
	var files []policy.Source
	for _, f := range b.Files {
		files = append(files, policy.Source{Name: filepath.Join(b.Name, f.Name), Data: f.data})
	}
	return policy.NewSources(b.Name, files), nil
}

// Make makes a signed bundle of policy files. The same files, version and key make
// the same bytes.
func Make(s *policy.Sources, version uint64, key ed25519.PrivateKey) ([]byte, error) {
	b := Bundle{Manifest: Manifest{APIVersion: APIVersion, Kind: Kind, Version: version}}
	for _, f := range s.Files {
		sum := sha256.Sum256(f.Data)
		b.Files = append(b.Files, File{filepath.Base(f.Name), hex.EncodeToString(sum[:]), f.Data})
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	manifest, err := json.MarshalIndent(b.Manifest, "", "  ")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	put := func(name string, data []byte) {
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatUSTAR})
		}
		if err == nil {
			_, err = w.Write(data)
		}
	}
	put(manifestName, manifest)
	put(signatureName, ed25519.Sign(key, append([]byte(signed), manifest...)))
	for _, f := range b.Files {
		put(f.Name, f.data)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	if out.Len() > MaxSize {
		return nil, fmt.Errorf("the bundle is larger than %d bytes", MaxSize)
	}
	return out.Bytes(), nil
}
