// Package xdr1 is what goxdr makes of version 1's XDR (RFC 5666 §4.3).
package xdr1

//go:generate go run github.com/xdrpp/goxdr/cmd/goxdr -p xdr1 -fmt -o xdr1.go rpcrdma1.x
