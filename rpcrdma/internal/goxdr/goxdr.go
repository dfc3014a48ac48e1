// Package goxdr is the code that goxdr generates from the XDR of version 2, of transport
// characteristics and of rtrext, and of the chunk lists of version 1. The referee decodes its types
// with package xdrin, and tests of the codec compare with them.
package goxdr

//go:generate go run github.com/xdrpp/goxdr/cmd/goxdr -p goxdr -fmt -o gen.go ../../wire/rpcrdma2/x/rpcrdma2.x ../../wire/rpcrdma2/x/xchar.x ../../wire/rpcrdma2/x/rtrext.x rpcrdma1.x
// vet minds literals without field names:
//go:generate sed -i "s/XdrVecOpaque{\\(&v[^,]*\\), /XdrVecOpaque{Bytes: \\1, Bound: /" gen.go
