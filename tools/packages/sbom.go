package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// components writes the list of a program's components (CycloneDX), as the go command has noted them in the program.
func (r *release) components(t target) (err error) {
	content, err := os.ReadFile(r.program(t))
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(r.program(t))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	self := packageURL(info.Main.Path, "v"+r.version)
	all := []cdx.Component{{
		BOMRef: packageURL("std", strings.TrimPrefix(info.GoVersion, "go")), Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: packageURL("std", strings.TrimPrefix(info.GoVersion, "go")),
	}}
	for _, m := range info.Deps {
		c, err := componentOf(m)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	var refs []string
	for _, c := range all {
		refs = append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	// The same program has the same number: of the form of a random UUID, from the program's hash.
	id := sum
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.date.Format("2006-01-02T15:04:05Z07:00"),
		Component: &cdx.Component{
			BOMRef: self, Type: cdx.ComponentTypeApplication, Name: "gpuwhy", Version: r.version, PackageURL: self,
			Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
			Properties: &[]cdx.Property{
				{Name: "gpuwhy:build", Value: t.String()}, {Name: "gpuwhy:commit", Value: r.commit},
			},
		},
	}
	bom.Components = &all
	bom.Dependencies = &[]cdx.Dependency{{Ref: self, Dependencies: &refs}}
	file, err := os.Create(filepath.Join(r.out, fmt.Sprintf("gpuwhy_%s_%s.cdx.json", r.version, t)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

func componentOf(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	c := cdx.Component{BOMRef: packageURL(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: packageURL(m.Path, m.Version)}
	sum, found := strings.CutPrefix(m.Sum, "h1:")
	hash, err := base64.StdEncoding.DecodeString(sum)
	if !found || err != nil || len(hash) != sha256.Size {
		return c, fmt.Errorf("the module %s %s has no sum: %q", m.Path, m.Version, m.Sum)
	}
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
	return c, nil
}

// packageURL names a Go module (https://github.com/package-url/purl-spec).
func packageURL(path, version string) string {
	return "pkg:golang/" + path + "@" + url.PathEscape(version)
}
