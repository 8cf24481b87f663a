// Command sbom writes an SPDX 2.3 document of Go programs to stdout, from what
// the compiler has put into them. It is the same each time.
//
// usage: sbom NAME VERSION PROGRAM...
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

type document struct {
	SPDXVersion   string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	SPDXID        string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	CreationInfo  creationInfo   `json:"creationInfo"`
	Packages      []pkg          `json:"packages"`
	Files         []file         `json:"files"`
	Relationships []relationship `json:"relationships"`
}

type creationInfo struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pkg struct {
	SPDXID        string        `json:"SPDXID"`
	Name          string        `json:"name"`
	VersionInfo   string        `json:"versionInfo"`
	Download      string        `json:"downloadLocation"`
	FilesAnalyzed bool          `json:"filesAnalyzed"`
	ExternalRefs  []externalRef `json:"externalRefs,omitempty"`
}

type externalRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type file struct {
	SPDXID    string     `json:"SPDXID"`
	Name      string     `json:"fileName"`
	Checksums []checksum `json:"checksums"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("want NAME VERSION PROGRAM...")
	}
	name, version, programs := args[0], args[1], args[2:]
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	const self = "SPDXRef-Package"
	d := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: name + "-" + version,
		CreationInfo:  creationInfo{time.Unix(seconds, 0).UTC().Format(time.RFC3339), []string{"Tool: nodeadmit-sbom"}},
		Packages:      []pkg{{SPDXID: self, Name: name, VersionInfo: version, Download: "NOASSERTION"}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", self}},
	}
	modules := map[string]string{}
	whole := sha256.New()
	for _, p := range programs {
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(p)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		whole.Write(sum[:])
		f := file{id("File", filepath.Base(p)), "./" + filepath.Base(p), []checksum{{"SHA256", hex.EncodeToString(sum[:])}}}
		d.Files = append(d.Files, f)
		d.Relationships = append(d.Relationships, relationship{self, "CONTAINS", f.SPDXID})
		modules["stdlib"] = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = m.Version
		}
	}
	d.Namespace = "https://nodeadmit.dev/spdx/" + d.Name + "-" + hex.EncodeToString(whole.Sum(nil))
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		p := pkg{
			SPDXID: id("Module", path), Name: path, VersionInfo: modules[path], Download: "NOASSERTION",
			ExternalRefs: []externalRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + modules[path]}},
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{self, "DEPENDS_ON", p.SPDXID})
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

var notID = regexp.MustCompile(`[^A-Za-z0-9.-]`)

func id(kind, name string) string { return "SPDXRef-" + kind + "-" + notID.ReplaceAllString(name, "-") }
