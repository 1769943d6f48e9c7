// Package stream reads records from NATS JetStream into a store. A message is acknowledged once
// its record is durable; the store drops what is delivered again.
//
// It never creates or changes a stream.
package stream
