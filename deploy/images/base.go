package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsFile has the certificate authorities, where Go and other programs look for them.
const rootsFile = "etc/ssl/certs/ca-certificates.crt"

// base are the files of all images: roots of trust, and a name for the user. Programs embed the time zones.
func base() []file {
	return []file{
		{path: "etc/group", mode: 0o644, content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{path: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{path: rootsFile, mode: 0o644, content: roots()},
	}
}

// roots are the certificate authorities that Mozilla trusts without a condition, in PEM. A condition cannot be written into such a file.
func roots() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer does not fail
		}
	}
	return text.Bytes()
}
