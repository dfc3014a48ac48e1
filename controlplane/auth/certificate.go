package auth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// maxName bounds a certificate's name, in bytes.
const maxName = 255

// certificateName is who a certificate names: the first of its URIs, DNS
// names and email addresses (RFC 5280 section 4.2.1.6), in this order of
// kinds, or its common name when it has none of them. Only this one name
// counts.
func certificateName(c *x509.Certificate) (string, error) {
	name := c.Subject.CommonName
	switch {
	case len(c.URIs) > 0:
		name = c.URIs[0].String()
	case len(c.DNSNames) > 0:
		name = c.DNSNames[0]
	case len(c.EmailAddresses) > 0:
		name = c.EmailAddresses[0]
	}
	switch {
	case name == "":
		return "", errors.New("the client's certificate names nobody")
	case len(name) > maxName || !printable(name):
		return "", errors.New("the name in the client's certificate is too long or not printable")
	case name == Anonymous || name == Daemon || strings.HasPrefix(name, "uid "):
		return "", fmt.Errorf("the client's certificate has a name of rdmad's own, %q", name)
	}
	return name, nil
}

// printable says whether a name can stand in a line of a log as it is.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar })
}
