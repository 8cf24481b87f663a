package policybundle

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// PublicKeys reads the Ed25519 keys of a PEM file (PKIX, as `openssl pkey -pubout`
// writes them). Several are for changing from one to the next.
func PublicKeys(data []byte) ([]ed25519.PublicKey, error) {
	var out []ed25519.PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("has a %s: want PUBLIC KEY", block.Type)
		}
		k, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		key, ok := k.(ed25519.PublicKey)
		if !ok {
			return nil, errors.New("has a key of another kind: want Ed25519 (openssl genpkey -algorithm ed25519)")
		}
		out = append(out, key)
	}
	if len(out) == 0 {
		return nil, errors.New("has no key: want PEM of an Ed25519 public key (openssl pkey -pubout)")
	}
	return out, nil
}

// PrivateKey reads an Ed25519 key of PEM (PKCS #8, as `openssl genpkey -algorithm
// ed25519` writes it).
func PrivateKey(data []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("want PEM of an Ed25519 private key (openssl genpkey -algorithm ed25519)")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := k.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("has a key of another kind: want Ed25519 (openssl genpkey -algorithm ed25519)")
	}
	return key, nil
}
