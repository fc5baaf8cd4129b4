// Package media measures what moves captured bytes: artifacts from node to gateway,
// beside a bare QUIC stream in the same run.
//
// Promises: gateway, node and their disks are real; without -figures its test only
// tries, small and quickly, that measuring works.
//
// It must never be imported: it is tests only.
package media
