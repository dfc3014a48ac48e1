// Package peers says what one peer is.
package peers
