package conditions

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"time"
)

// ExpiresSoon is how long before its end a certificate becomes DEGRADED.
const ExpiresSoon = 14 * 24 * time.Hour

// maxPEM bounds a certificate file, in bytes.
const maxPEM = 1 << 20

// Certificates checks the certificates of a PEM file. The one that expires first decides, and
// expires is when. It is zero if the file cannot be read.
func Certificates(file string, now time.Time) (r *Reason, text string, expires time.Time) {
	all, err := readCertificates(file)
	if err != nil {
		return CertificateUnreadable, err.Error(), time.Time{}
	}
	return check(file, all, now)
}

// Authorities is Certificates for the CA certificates of a PEM file. Each of them has peers of
// its own, so one that is not valid leaves the others in use.
func Authorities(file string, now time.Time) (r *Reason, text string, expires time.Time) {
	all, err := readCertificates(file)
	if err != nil {
		return CertificateUnreadable, err.Error(), time.Time{}
	}
	r, text, expires = check(file, all, now)
	if r.Status == Failed && slices.ContainsFunc(all, func(c *x509.Certificate) bool { return !c.NotBefore.After(now) && c.NotAfter.After(now) }) {
		r = CertificatePartlyValid
	}
	return r, text, expires
}

// check checks at least one certificate.
func check(file string, all []*x509.Certificate, now time.Time) (r *Reason, text string, expires time.Time) {
	first := all[0]
	for _, c := range all {
		if c.NotBefore.After(now) {
			return CertificateNotYetValid, fmt.Sprintf("%s: %q is valid from %s on", file, c.Subject, c.NotBefore.UTC().Format(time.DateTime)), c.NotAfter
		}
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	text = fmt.Sprintf("%s: %q expires on %s", file, first.Subject, first.NotAfter.UTC().Format(time.DateTime))
	switch left := first.NotAfter.Sub(now); {
	case left <= 0:
		return CertificateExpired, text, first.NotAfter
	case left <= ExpiresSoon:
		return CertificateExpiring, text, first.NotAfter
	}
	return CertificateValid, text, first.NotAfter
}

// readCertificates returns at least one certificate, or an error.
func readCertificates(file string) (all []*x509.Certificate, err error) {
	if info, err := os.Stat(file); err == nil && info.Size() > maxPEM {
		return nil, fmt.Errorf("%s has %d bytes, more than certificates need", file, info.Size())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return all, nil
}
