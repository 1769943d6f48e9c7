// Package sink delivers records from the spool to other systems: CloudEvents over HTTP, OTLP logs, NATS JetStream.
//
// Each sink has its own cursor in the spool and its own pace. A record is delivered at least once: what
// was not acknowledged is sent again, after a pause that doubles up to five minutes. A record that a sink refuses for ever is
// found by halving the batch, set aside in a file, and counted; the others go on. Receivers
// drop what they have seen by the record's id.
//
// No decision waits for a sink.
package sink
