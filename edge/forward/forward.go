// Package forward makes batches of what inputs hand over, keeps them in the spool and ships them to every destination.
package forward
